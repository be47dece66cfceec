"""The shared libraries: their functions, structs and constants as include/corestack declares them.

python/tests/test_binding.py compares every declaration here with the headers.
"""
from __future__ import annotations

import contextlib
import ctypes
import os
from ctypes import POINTER, Structure, c_char_p, c_double, c_int, c_int32, c_int64, c_size_t, c_uint64, c_void_p
from pathlib import Path
from typing import Any, Iterator

LOG = ctypes.CFUNCTYPE(None, c_void_p, c_int, c_char_p)
SOUP_HOOK = ctypes.CFUNCTYPE(c_int, c_void_p, c_void_p, c_char_p, c_char_p)
PROGRESS = ctypes.CFUNCTYPE(c_int, c_void_p, c_char_p, c_int64, c_int64)
ALLGATHER = ctypes.CFUNCTYPE(c_int, c_void_p, c_void_p, c_size_t, c_void_p, POINTER(c_size_t))

CLASSIFICATION = 0
REGRESSION = 1
SEGMENTATION = 2
DETECTION = 3
PROBABILITY = 0
LOGIT = 1
FLOAT32 = 0
FLOAT64 = 1
FLOAT16 = 2
LEVELS_MAX = 8
DTYPE_COUNT = 22


class Array(Structure):
    """cst_array"""

    _fields_ = [("data", c_void_p), ("type", c_int), ("row_step", c_int64), ("column_step", c_int64)]


class PoolArrays(Structure):
    """cst_pool_arrays"""

    _fields_ = [
        ("split", c_char_p),
        ("task", c_int),
        ("output", c_int),
        ("members", c_int32),
        ("rows", c_int64),
        ("classes", c_int32),
        ("columns", c_int32),
        ("predictions", POINTER(Array)),
        ("names", POINTER(c_char_p)),
        ("class_names", POINTER(c_char_p)),
        ("flops", c_void_p),
        ("latency_ms", c_void_p),
        ("params", c_void_p),
        ("memory_bytes", c_void_p),
        ("labels", c_void_p),
        ("targets", c_void_p),
        ("folds", c_void_p),
        ("groups", c_void_p),
        ("weights", c_void_p),
        ("missing", c_int),
        ("domains", POINTER(c_char_p)),
    ]


class PoolConfig(Structure):
    """cst_pool_config"""

    _fields_ = [
        ("outside", c_int),
        ("output_given", c_int),
        ("output", c_int),
        ("labels", c_char_p),
        ("ids", c_char_p),
        ("folds", c_char_p),
        ("groups", c_char_p),
        ("weights", c_char_p),
        ("zip_limit", c_uint64),
        ("task_given", c_int),
        ("task", c_int),
        ("ignore_given", c_int),
        ("ignore", c_int32),
        ("layout", c_int),
        ("classes", c_int32),
        ("id_column", c_char_p),
        ("label_column", c_char_p),
        ("class_names", POINTER(c_char_p)),
        ("missing", c_int),
        ("domains", c_char_p),
        ("unlabelled", c_int),
    ]


class AdapterOptions(Structure):
    """cst_adapter_options"""

    _fields_ = [("pending", c_int64), ("alpha", c_double)]


class AdapterState(Structure):
    """cst_adapter_state"""

    _fields_ = [
        ("observed", c_int64),
        ("labelled", c_int64),
        ("waiting", c_int64),
        ("dropped", c_int64),
        ("loss", c_double),
        ("stack_loss", c_double),
        ("average_loss", c_double),
        ("best_member_loss", c_double),
        ("best_member", c_int32),
        ("stack_share", c_double),
        ("newton_share", c_double),
        ("members_share", c_double),
        ("coverage", c_double),
        ("set_size", c_double),
        ("average_share", c_double),
    ]


class Metrics(Structure):
    """cst_metrics"""

    _fields_ = [
        ("samples", c_int64),
        ("top1", c_double),
        ("nll", c_double),
        ("brier", c_double),
        ("ece", c_double),
        ("ece_mass", c_double),
        ("ece_classwise", c_double),
        ("ece_debiased", c_double),
        ("corp", c_double),
        ("bins", c_int),
    ]


class ReliabilityBin(Structure):
    """cst_reliability_bin"""

    _fields_ = [
        ("lower", c_double),
        ("upper", c_double),
        ("confidence", c_double),
        ("accuracy", c_double),
        ("count", c_int64),
    ]


class Guard(Structure):
    """cst_guard"""

    _fields_ = [("mode", c_int), ("batch", c_int64)]


class GuardBatch(Structure):
    """cst_guard_batch"""

    _fields_ = [
        ("condition", c_int64),
        ("first", c_int64),
        ("rows", c_int64),
        ("tested", c_int),
        ("fired", c_int),
        ("pi", c_double),
        ("unlike", c_double),
        ("lambda", c_double),
        ("z", c_double),
        ("accuracy", c_double),
        ("flatten", c_double),
        ("sharpen", c_double),
    ]


class PredictedValues(Structure):
    """cst_predicted_values"""

    _fields_ = [
        ("rows", c_int64),
        ("outputs", c_int32),
        ("mean", c_void_p),
        ("variance", c_void_p),
        ("levels", c_int32),
        ("level", c_void_p),
        ("half_width", POINTER(c_void_p)),
    ]


class ValueMetrics(Structure):
    """cst_value_metrics"""

    _fields_ = [
        ("samples", c_int64),
        ("rmse", c_double),
        ("mae", c_double),
        ("median_ae", c_double),
        ("r2", c_double),
        ("nll", c_double),
        ("levels", c_int32),
        ("level", c_double * LEVELS_MAX),
        ("coverage", c_double * LEVELS_MAX),
        ("width", c_double * LEVELS_MAX),
    ]


class SegmentationScores(Structure):
    """cst_segmentation_scores"""

    _fields_ = [
        ("pixels", c_int64),
        ("classes_present", c_int32),
        ("miou", c_double),
        ("pixel_accuracy", c_double),
        ("mean_accuracy", c_double),
        ("dice", c_double),
        ("fwiou", c_double),
        ("boundary_error", c_double),
        ("boundary_iou", c_double),
        ("nll", c_double),
        ("brier", c_double),
        ("ece", c_double),
    ]


class EvaluateOptions(Structure):
    """cst_evaluate_options"""

    _fields_ = [
        ("split", c_char_p),
        ("baselines", c_int),
        ("resamples", c_int32),
        ("seed", c_uint64),
        ("ood", c_char_p),
        ("clean", c_char_p),
        ("reference_errors", c_char_p),
        ("head_above", c_int64),
        ("tail_below", c_int64),
    ]


class BoundOptions(Structure):
    """cst_bound_options"""

    _fields_ = [
        ("split", c_char_p),
        ("delta", c_double),
        ("alpha", c_double),
        ("seed", c_uint64),
        ("leakage", c_int),
    ]


class BoundBatch(Structure):
    """cst_bound_batch"""

    _fields_ = [
        ("split", c_char_p),
        ("weights", c_int),
        ("sets", c_char_p),
    ]


class CompareOptions(Structure):
    """cst_compare_options"""

    _fields_ = [
        ("split", c_char_p),
        ("methods", POINTER(c_char_p)),
        ("method_count", c_int32),
        ("reference", c_char_p),
        ("ood", c_char_p),
        ("settings", POINTER(c_char_p)),
        ("setting_count", c_int32),
        ("resamples", c_int32),
        ("seed", c_uint64),
        ("predicted", c_void_p),
        ("user", c_void_p),
        ("clean", c_char_p),
        ("reference_errors", c_char_p),
        ("head_above", c_int64),
        ("tail_below", c_int64),
        ("splits", c_int32),
        ("holdout", c_double),
    ]


class ProfileOptions(Structure):
    """cst_profile_options"""

    _fields_ = [
        ("split", c_char_p),
        ("methods", POINTER(c_char_p)),
        ("method_count", c_int32),
        ("settings", POINTER(c_char_p)),
        ("setting_count", c_int32),
        ("batch", c_int64),
        ("calls", c_int64),
        ("seconds", c_double),
        ("parallel", c_int),
        ("seed", c_uint64),
    ]


class Collectives(Structure):
    """cst_collectives"""

    _fields_ = [
        ("self", c_void_p),
        ("rank", c_int),
        ("size", c_int),
        ("host", c_char_p),
        ("allgather", ALLGATHER),
        ("allreduce", c_void_p),  # NULL: made of allgather
    ]


class AdaptOptions(Structure):
    """cst_adapt_options"""

    _fields_ = [
        ("split", c_char_p),
        ("rows", POINTER(c_int64)),
        ("labels", POINTER(c_int32)),
        ("row_count", c_int64),
        ("unlabeled", c_char_p),
    ]


class MonitorOptions(Structure):
    """cst_monitor_options"""

    _fields_ = [("alpha", c_double), ("in_order", c_int)]


class SweepOptions(Structure):
    """cst_sweep_options"""

    _fields_ = [("key", c_char_p), ("values", POINTER(c_char_p)), ("value_count", c_int32), ("draws", c_int32)]


class SoupConfig(Structure):
    """cst_soup_config"""

    _fields_ = [
        ("hook", SOUP_HOOK),
        ("user", c_void_p),
        ("labels", c_char_p),
        ("task", c_int),
        ("output", c_int),
        ("metric", c_char_p),
    ]


class OptionSpec(Structure):
    """cst_option_spec"""

    _fields_ = [
        ("key", c_char_p),
        ("type", c_int),
        ("initial", c_char_p),
        ("least", c_double),
        ("most", c_double),
        ("choices", c_char_p),
        ("help", c_char_p),
    ]


_STATUS = c_int
_OUT = POINTER(c_void_p)
_COUNT = POINTER(c_int64)

# name: (result, arguments). Opaque pointers and arrays are void *.
# Of libcorestack.
FUNCTIONS: dict[str, tuple[Any, list[Any]]] = {
    "cst_version": (c_char_p, []),
    "cst_context_create": (_STATUS, [_OUT]),
    "cst_context_free": (None, [c_void_p]),
    "cst_context_set_threads": (_STATUS, [c_void_p, c_int]),
    "cst_context_set_memory": (_STATUS, [c_void_p, c_size_t]),
    "cst_context_set_collectives": (_STATUS, [c_void_p, POINTER(Collectives)]),
    "cst_context_agree": (_STATUS, [c_void_p, _STATUS, c_char_p]),
    "cst_context_same": (_STATUS, [c_void_p, c_char_p, c_char_p]),
    "cst_context_set_log": (None, [c_void_p, LOG, c_void_p]),
    "cst_context_set_progress": (None, [c_void_p, PROGRESS, c_void_p]),
    "cst_last_error": (c_char_p, [c_void_p]),
    "cst_status_text": (c_char_p, [_STATUS]),
    "cst_free": (None, [c_void_p, c_void_p]),
    "cst_task_name": (c_char_p, [c_int]),
    "cst_pool_open": (_STATUS, [c_void_p, _OUT, c_char_p, POINTER(PoolConfig)]),
    "cst_pool_open_files": (_STATUS, [c_void_p, _OUT, POINTER(c_char_p), c_size_t, POINTER(PoolConfig)]),
    "cst_pool_from_arrays": (_STATUS, [c_void_p, _OUT, POINTER(PoolArrays)]),
    "cst_pool_load": (_STATUS, [c_void_p, c_void_p, c_char_p]),
    "cst_pool_free": (None, [c_void_p, c_void_p]),
    "cst_pool_file": (c_char_p, [c_void_p, c_size_t]),
    "cst_pool_takes_name": (c_int, [c_void_p, c_char_p]),
    "cst_pool_task": (c_int, [c_void_p]),
    "cst_pool_members": (c_int32, [c_void_p]),
    "cst_pool_conditions": (c_int32, [c_void_p, c_char_p]),
    "cst_pool_class_name": (c_char_p, [c_void_p, c_int32]),
    "cst_pool_id": (c_char_p, [c_void_p, c_char_p, c_int64]),
    "cst_pool_member_name": (c_char_p, [c_void_p, c_int32]),
    "cst_options_create": (_STATUS, [c_void_p, _OUT]),
    "cst_options_free": (None, [c_void_p, c_void_p]),
    "cst_options_preset": (_STATUS, [c_void_p, c_void_p, c_char_p]),
    "cst_options_set": (_STATUS, [c_void_p, c_void_p, c_char_p, c_char_p]),
    "cst_option_count": (c_size_t, []),
    "cst_option_at": (POINTER(OptionSpec), [c_size_t]),
    "cst_preset_at": (c_char_p, [c_size_t]),
    "cst_method_name": (c_char_p, [c_size_t]),
    "cst_detection_method_name": (c_char_p, [c_size_t]),
    "cst_fit": (_STATUS, [c_void_p, c_void_p, c_char_p, c_void_p, _OUT, _OUT]),
    "cst_fit_method": (_STATUS, [c_void_p, c_void_p, c_char_p, c_char_p, c_void_p, _OUT, _OUT]),
    "cst_show": (_STATUS, [c_void_p, c_void_p, c_void_p, c_char_p, _OUT]),
    "cst_inspect": (_STATUS, [c_void_p, c_void_p, c_char_p, c_void_p, _OUT]),
    "cst_evaluate_member": (
        _STATUS,
        [c_void_p, c_void_p, c_char_p, c_int32, c_int32, c_uint64, _OUT],
    ),
    "cst_evaluate_stack": (_STATUS, [c_void_p, c_void_p, c_void_p, POINTER(EvaluateOptions), _OUT]),
    "cst_bound": (_STATUS, [c_void_p, c_void_p, c_void_p, POINTER(BoundOptions), _OUT]),
    "cst_bound_shifted": (
        _STATUS,
        [c_void_p, c_void_p, c_void_p, POINTER(BoundOptions), POINTER(BoundBatch), _OUT],
    ),
    "cst_evaluate_detections": (_STATUS, [c_void_p, c_char_p, c_char_p, c_int32, c_uint64, _OUT]),
    "cst_segmentation_evaluate_file": (
        _STATUS,
        [c_void_p, c_char_p, POINTER(PoolConfig), c_double, c_int32, c_uint64, _OUT],
    ),
    "cst_compare": (_STATUS, [c_void_p, c_void_p, POINTER(CompareOptions), _OUT]),
    "cst_ablate": (_STATUS, [c_void_p, c_void_p, POINTER(CompareOptions), _OUT]),
    "cst_sweep": (_STATUS, [c_void_p, c_void_p, POINTER(SweepOptions), POINTER(CompareOptions), _OUT]),
    "cst_adapt": (_STATUS, [c_void_p, c_void_p, c_void_p, POINTER(AdaptOptions), _OUT, _OUT]),
    "cst_adapt_suggest": (_STATUS, [c_void_p, c_void_p, c_void_p, c_char_p, c_int64, POINTER(c_int64)]),
    "cst_profile": (_STATUS, [c_void_p, c_void_p, c_void_p, POINTER(ProfileOptions), _OUT]),
    "cst_monitor_create": (_STATUS, [c_void_p, _OUT, c_void_p, POINTER(MonitorOptions)]),
    "cst_monitor_batch": (_STATUS, [c_void_p, c_void_p, c_void_p, c_char_p, c_char_p, POINTER(c_int)]),
    "cst_monitor_alarm": (c_int, [c_void_p]),
    "cst_monitor_evidence": (c_double, [c_void_p]),
    "cst_monitor_rows": (c_int64, [c_void_p]),
    "cst_monitor_report": (_STATUS, [c_void_p, c_void_p, _OUT]),
    "cst_monitor_save": (_STATUS, [c_void_p, c_void_p, c_char_p]),
    "cst_monitor_load": (_STATUS, [c_void_p, _OUT, c_void_p, c_char_p, POINTER(MonitorOptions)]),
    "cst_monitor_free": (None, [c_void_p, c_void_p]),
    "cst_report_new": (_STATUS, [c_void_p, c_char_p, _OUT]),
    "cst_report_set_string": (_STATUS, [c_void_p, c_void_p, c_char_p, c_char_p]),
    "cst_report_set_integer": (_STATUS, [c_void_p, c_void_p, c_char_p, c_int64]),
    "cst_report_json": (_STATUS, [c_void_p, c_void_p, _OUT]),
    "cst_report_text": (_STATUS, [c_void_p, c_void_p, c_int, _OUT]),
    "cst_report_csv": (_STATUS, [c_void_p, c_void_p, _OUT]),
    "cst_report_markdown": (_STATUS, [c_void_p, c_void_p, _OUT]),
    "cst_report_latex": (_STATUS, [c_void_p, c_void_p, _OUT]),
    "cst_report_free": (None, [c_void_p, c_void_p]),
    "cst_model_save": (_STATUS, [c_void_p, c_void_p, c_char_p]),
    "cst_model_save_memory": (_STATUS, [c_void_p, c_void_p, _OUT, POINTER(c_size_t)]),
    "cst_model_load": (_STATUS, [c_void_p, _OUT, c_char_p]),
    "cst_model_load_memory": (_STATUS, [c_void_p, _OUT, c_void_p, c_size_t]),
    "cst_model_free": (None, [c_void_p, c_void_p]),
    "cst_model_task": (c_int, [c_void_p]),
    "cst_model_members": (c_int32, [c_void_p]),
    "cst_model_classes": (c_int32, [c_void_p]),
    "cst_model_member_name": (c_char_p, [c_void_p, c_int32]),
    "cst_model_member_weight": (c_double, [c_void_p, c_int32]),
    "cst_model_class_name": (c_char_p, [c_void_p, c_int32]),
    "cst_model_setting": (c_char_p, [c_void_p, c_size_t]),
    "cst_model_others": (c_int32, [c_void_p]),
    "cst_model_other_name": (c_char_p, [c_void_p, c_int32]),
    "cst_model_predict_guarded": (
        _STATUS,
        [c_void_p, c_void_p, c_void_p, c_char_p, POINTER(Guard), _OUT, _COUNT, _OUT],
    ),
    "cst_report_set_guard": (_STATUS, [c_void_p, c_void_p, c_int, c_void_p]),
    "cst_guard_report_free": (None, [c_void_p, c_void_p]),
    "cst_model_label_shift": (_STATUS, [c_void_p, c_void_p, c_int, c_void_p, c_int64, c_void_p, _OUT]),
    "cst_report_set_label_shift": (_STATUS, [c_void_p, c_void_p, c_void_p, c_void_p]),
    "cst_label_report_free": (None, [c_void_p, c_void_p]),
    "cst_model_predict_values_pool": (
        _STATUS,
        [c_void_p, c_void_p, c_void_p, c_char_p, _OUT, _OUT, _COUNT],
    ),
    "cst_model_intervals": (
        _STATUS,
        [c_void_p, c_void_p, c_double, c_void_p, c_void_p, c_int64, c_void_p, c_void_p],
    ),
    "cst_model_predict_detections": (
        _STATUS,
        [c_void_p, c_void_p, c_void_p, c_char_p, c_char_p, _COUNT, _COUNT],
    ),
    "cst_segmentation_predict": (
        _STATUS,
        [c_void_p, c_void_p, c_void_p, c_char_p, c_int, c_char_p, _COUNT, _COUNT],
    ),
    "cst_segmentation_predict_guarded": (
        _STATUS,
        [c_void_p, c_void_p, c_void_p, c_char_p, POINTER(Guard), c_int, c_char_p, _COUNT, _COUNT, _OUT],
    ),
    "cst_write_predictions": (_STATUS, [c_void_p, c_char_p, c_void_p, c_int64, c_int32]),
    "cst_write_predictions_conditions": (
        _STATUS,
        [c_void_p, c_char_p, c_void_p, c_int32, c_int64, c_int32],
    ),
    "cst_write_predictions_csv": (
        _STATUS,
        [c_void_p, c_char_p, c_void_p, c_int64, c_int32, POINTER(c_char_p), POINTER(c_char_p)],
    ),
    "cst_write_predictions_like": (
        _STATUS,
        [
            c_void_p, c_char_p, c_char_p, c_char_p, c_int, c_void_p, c_int64, c_int32, POINTER(c_char_p), POINTER(c_char_p),
            _OUT,
        ],
    ),  # fmt: skip
    "cst_context_set_formulas": (None, [c_void_p, c_int]),
    "cst_hold_file": (_STATUS, [c_void_p, c_char_p, c_void_p]),
    "cst_release_files": (_STATUS, [c_void_p]),
    "cst_drop_files": (None, [c_void_p]),
    "cst_lock_file": (_STATUS, [c_void_p, _OUT, c_char_p]),
    "cst_unlock_file": (None, [c_void_p, c_void_p]),
    "cst_adapter_create": (_STATUS, [c_void_p, _OUT, c_void_p, POINTER(c_char_p), c_int32, POINTER(AdapterOptions)]),
    "cst_adapter_observe": (_STATUS, [c_void_p, c_void_p, POINTER(c_void_p), c_int64, c_void_p, POINTER(c_int64)]),
    "cst_adapter_label": (_STATUS, [c_void_p, c_void_p, c_int64, c_int32]),
    "cst_adapter_set": (_STATUS, [c_void_p, c_void_p, c_int64, c_void_p, POINTER(c_int32)]),
    "cst_adapter_get_state": (_STATUS, [c_void_p, c_void_p, POINTER(AdapterState)]),
    "cst_adapter_members": (c_int32, [c_void_p]),
    "cst_adapter_member_name": (c_char_p, [c_void_p, c_int32]),
    "cst_adapter_save": (_STATUS, [c_void_p, c_void_p, c_char_p]),
    "cst_adapter_load": (_STATUS, [c_void_p, _OUT, c_void_p, c_char_p]),
    "cst_adapter_free": (None, [c_void_p, c_void_p]),
    "cst_predictor_create": (_STATUS, [c_void_p, _OUT, c_void_p]),
    "cst_predictor_predict": (_STATUS, [c_void_p, POINTER(c_void_p), c_int64, c_void_p]),
    "cst_predictor_set_domain": (_STATUS, [c_void_p, c_char_p]),
    "cst_predictor_predict_present": (_STATUS, [c_void_p, POINTER(c_void_p), c_void_p, c_int64, c_void_p]),
    "cst_predictor_set_guard": (_STATUS, [c_void_p, c_int64]),
    "cst_predictor_predict_guarded": (
        _STATUS,
        [c_void_p, POINTER(c_void_p), POINTER(c_void_p), c_int64, c_void_p, POINTER(GuardBatch)],
    ),
    "cst_predictor_error": (c_char_p, [c_void_p]),
    "cst_predictor_free": (None, [c_void_p, c_void_p]),
    "cst_metric_definition": (c_char_p, [c_char_p]),
    "cst_metrics_evaluate": (
        _STATUS,
        [c_void_p, c_void_p, c_int64, c_int32, c_void_p, c_int, POINTER(Metrics)],
    ),
    "cst_metrics_reliability": (
        _STATUS,
        [c_void_p, c_void_p, c_int64, c_int32, c_void_p, c_int, POINTER(ReliabilityBin)],
    ),
    "cst_value_metrics_evaluate": (
        _STATUS,
        [c_void_p, POINTER(PredictedValues), c_void_p, POINTER(ValueMetrics), POINTER(ValueMetrics)],
    ),
    "cst_segmentation_definition": (c_char_p, [c_char_p]),
    "cst_segmentation_evaluate_labels": (
        _STATUS,
        [
            c_void_p, c_void_p, c_void_p, c_int64, c_int64, c_int64, c_int32, c_int32, c_double,
            POINTER(SegmentationScores), c_void_p,
        ],
    ),
    "cst_folds_stratified": (_STATUS, [c_void_p, c_void_p, c_int64, c_int32, c_uint64, c_void_p]),
    "cst_folds_grouped": (
        _STATUS,
        [c_void_p, c_void_p, c_void_p, c_int64, c_int32, c_uint64, c_void_p],
    ),
    "cst_folds_quantile": (
        _STATUS,
        [c_void_p, c_void_p, c_int32, c_void_p, c_int64, c_int32, c_uint64, c_void_p],
    ),
    "cst_dtype_name": (c_char_p, [c_int]),
    "cst_dtype_bits": (c_int32, [c_int]),
    "cst_safetensors_open": (_STATUS, [c_void_p, _OUT, c_char_p]),
    "cst_safetensors_close": (None, [c_void_p, c_void_p]),
    "cst_safetensors_count": (c_int64, [c_void_p]),
    "cst_safetensors_find": (c_int64, [c_void_p, c_char_p]),
    "cst_safetensors_name": (c_char_p, [c_void_p, c_int64]),
    "cst_safetensors_dtype": (c_int, [c_void_p, c_int64]),
    "cst_safetensors_shape": (POINTER(c_int64), [c_void_p, c_int64, POINTER(c_int32)]),
    "cst_safetensors_bytes": (c_int64, [c_void_p, c_int64]),
    "cst_safetensors_metadata_count": (c_int64, [c_void_p]),
    "cst_safetensors_metadata_key": (c_char_p, [c_void_p, c_int64]),
    "cst_safetensors_metadata_value": (c_char_p, [c_void_p, c_int64]),
    "cst_safetensors_read": (_STATUS, [c_void_p, c_void_p, c_int64, c_int64, c_int64, c_void_p]),
    "cst_safetensors_read_f32": (_STATUS, [c_void_p, c_void_p, c_int64, c_int64, c_int64, c_void_p]),
    "cst_safetensors_read_f64": (_STATUS, [c_void_p, c_void_p, c_int64, c_int64, c_int64, c_void_p]),
    "cst_safetensors_map": (_STATUS, [c_void_p, c_void_p, c_int64, _OUT]),
    "cst_soup_fail": (_STATUS, [c_void_p, _STATUS, c_char_p]),
    "cst_soup_uniform": (_STATUS, [c_void_p, POINTER(c_char_p), c_int32, c_char_p, _OUT]),
    "cst_soup_greedy": (_STATUS, [c_void_p, POINTER(c_char_p), c_int32, POINTER(SoupConfig), c_char_p, _OUT]),
    "cst_swa_average": (_STATUS, [c_void_p, POINTER(c_char_p), c_int32, c_char_p, c_char_p]),
    "cst_swag_fit": (_STATUS, [c_void_p, POINTER(c_char_p), c_int32, c_int32, c_char_p]),
    "cst_swag_sample": (_STATUS, [c_void_p, c_char_p, c_int32, c_double, c_uint64, c_int32, c_char_p]),
}


def _blas_is_loaded() -> bool:
    """Whether the OpenBLAS that the library names is in the process already, as where NumPy uses the same one."""
    try:
        ctypes.CDLL("libopenblas.so.0", mode=os.RTLD_NOLOAD)
    except OSError:
        return False
    return True


@contextlib.contextmanager
def _blas_without_threads() -> Iterator[None]:
    """OpenBLAS reads the variable when it is loaded. The library wants none of its threads, and where they find no memory
    or cannot be created OpenBLAS waits for good or interrupts the process."""
    name = "OPENBLAS_NUM_THREADS"
    before = os.environ.get(name)
    if _blas_is_loaded():
        yield
        return
    os.environ[name] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before


def _load(path: Path, functions: dict[str, tuple[Any, list[Any]]]) -> ctypes.CDLL:
    try:
        with _blas_without_threads():
            library = ctypes.CDLL(str(path))
    except OSError as error:
        raise ImportError(
            f"{path}: the corestack library cannot be loaded ({error}); build the package with 'pip install .' in its "
            "folder, and check that the libraries it needs are installed (libopenblas0, liblapacke, libjansson4, libzip4, "
            "libpng16-16, zlib1g, libyajl2)"
        ) from error
    for name, (result, arguments) in functions.items():
        function = getattr(library, name)
        function.restype = result
        function.argtypes = arguments
    return library


_PATH = Path(os.environ.get("CORESTACK_LIBRARY") or Path(__file__).with_name("libcorestack.so"))
lib = _load(_PATH, FUNCTIONS)
version: str = lib.cst_version().decode()
