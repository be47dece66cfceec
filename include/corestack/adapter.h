/* A fitted stack on a stream: rows come, labels come later or never, and the prediction follows
 * what the labels teach. Classification only. docs/prediction.md#learning-online. */
#ifndef CORESTACK_ADAPTER_H
#define CORESTACK_ADAPTER_H

#include <corestack/model.h>
#include <corestack/report.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What has been learned so far. One thread at a time. */
typedef struct cst_adapter cst_adapter;

/* Zero-initialise, then set the fields that apply. */
typedef struct cst_adapter_options {
    size_t struct_size; /* sizeof(cst_adapter_options), or 0 for the fields of version 0.1 */
    int64_t pending;    /* the last this many rows can be given a label, 1 to 10,000,000; 0: 10,000,
                           or as many as fit into 8 MiB, but at least 16 */
    double alpha;       /* share of the labels that may be outside their prediction set, in (0, 1);
                           0: 0.1 */
} cst_adapter_options;

/* Creates an adapter of a classification model, which is not copied and must outlive it. names:
 * [members] names of the members whose predictions will come, in that order: those of the model and
 * any others; NULL and 0: those of the model. The memory that the adapter takes never grows later.
 * CST_ERROR_UNSUPPORTED for a model of another task, CST_ERROR_MISMATCH where a member of the model
 * is missing, CST_ERROR_LIMIT for more than 1,024 members. *out belongs to the caller
 * (cst_adapter_free). */
CST_API cst_status cst_adapter_create(cst_context *context, cst_adapter **out,
                                      const cst_model *model, const char *const *names,
                                      int64_t members, const cst_adapter_options *options);

/* Predicts `rows` rows, at least one, with what has been learned so far. predictions[k]:
 * [rows][classes] float32 probabilities of member k, in the order of cst_adapter_create, checked as
 * by cst_model_predict. out: [rows][classes], provided by the caller; each row sums to 1 within
 * 1e-6. *ticket: that of the first row; the others follow it by ones, and the first ticket of an
 * adapter is 0. More rows than the adapter keeps for labels are CST_ERROR_ARGUMENT. After an error
 * the adapter is as before. */
CST_API cst_status cst_adapter_observe(cst_context *context, cst_adapter *adapter,
                                       const float *const *predictions, int64_t rows, float *out,
                                       int64_t *ticket);

/* Learns the label of a row, 0..classes-1. Labels may come in any order, and a row whose label
 * never comes changes nothing. CST_ERROR_INPUT, and nothing is learned, for a ticket that was not
 * given out, has its label already, or is too old; and for a label that is no class. */
CST_API cst_status cst_adapter_label(cst_context *context, cst_adapter *adapter, int64_t ticket,
                                     int32_t label);

/* The prediction set of a row that waits for its label, as it was when the row came. set:
 * [classes], provided by the caller: 1 for a class in the set, else 0. *size (may be NULL): classes
 * in it. After every label the level of later sets moves (adaptive conformal inference), so that on
 * any stream the share of labels outside their set approaches alpha. Sets are full until there are
 * 1/alpha labels. CST_ERROR_INPUT for the tickets that cst_adapter_label refuses. */
CST_API cst_status cst_adapter_set(cst_context *context, cst_adapter *adapter, int64_t ticket,
                                   uint8_t *set, int32_t *size);

/* What an adapter has seen. Losses are means of -log p(label) in nats, p being clipped to at least
 * 1e-15, over the rows with a label, each as it was predicted when it came; NaN without rows. */
typedef struct cst_adapter_state {
    int64_t observed; /* rows */
    int64_t labelled;
    int64_t waiting; /* rows that can still be given a label */
    int64_t dropped; /* rows that were too old before their label came */
    double loss;     /* of the adapter */
    double stack_loss;
    double average_loss;     /* of the average of all members */
    double best_member_loss; /* of the member that was best on all of these rows */
    int32_t best_member;     /* in the order of cst_adapter_create; -1 without rows */
    double stack_share;      /* of the stack in the next prediction; the four sum to 1 */
    double newton_share;     /* of the experts that refit the weights */
    double members_share;    /* of the single members */
    double coverage;         /* share of the labels that were in their prediction set */
    double set_size;         /* classes in these sets, the mean */
    double average_share;    /* of the average of all members, plain and with a temperature */
} cst_adapter_state;

/* Writes the state of the adapter to *out. CST_ERROR_ARGUMENT for NULL. */
CST_API cst_status cst_adapter_get_state(cst_context *context, const cst_adapter *adapter,
                                         cst_adapter_state *out);

/* Returns the number of members whose predictions the adapter takes. For programs that size arrays
 * of them. */
CST_API int64_t cst_adapter_members(const cst_adapter *adapter);

/* Returns the name of member `member` (0..members-1); NULL beyond. Borrowed. */
CST_API const char *cst_adapter_member_name(const cst_adapter *adapter, int32_t member);

/* Writes all that the adapter has learned to a file, rows that wait for their label included: to a
 * temporary name in the same folder, synced, then renamed. The same calls give an identical file.
 */
CST_API cst_status cst_adapter_save(cst_context *context, const cst_adapter *adapter,
                                    const char *path);

/* Reads such a file for the model that the adapter was created from; it goes on with the same
 * bytes as if it had never been saved. CST_ERROR_MISMATCH for another model, CST_ERROR_FORMAT, with
 * the byte offset, for a file that is damaged or no state of an adapter, CST_ERROR_UNSUPPORTED for
 * a newer format. *out belongs to the caller (cst_adapter_free). */
CST_API cst_status cst_adapter_load(cst_context *context, cst_adapter **out, const cst_model *model,
                                    const char *path);

/* Frees an adapter; NULL is accepted. */
CST_API void cst_adapter_free(cst_context *context, cst_adapter *adapter);

/* How a split is taken as a stream. Zero-initialise, then set the fields that apply. */
typedef struct cst_online_options {
    size_t struct_size; /* sizeof(cst_online_options), or 0 for the fields of version 0.1 */
    const char *split;  /* NULL: "test" */
    int64_t delay;      /* a row's label is learned before the prediction of the row this many after
                           the next; 0: at once. Less than the adapter keeps rows */
    int64_t block;      /* rows from one point of the report's series to the next; 0: 100 */
} cst_online_options;

/* Takes the rows of a split as a stream, in the order of its rows, one condition after the other:
 * each is predicted, and its label is learned `delay` rows later. Labels may be missing (open the
 * pool with `unlabelled`); without any, rows are predicted only. Members are matched by name.
 * After an error the adapter may have seen some of the rows: load its state again.
 * *predictions: [rows][classes], belongs to the caller (cst_free); NULL: not wanted. *report (NULL:
 * not wanted) belongs to the caller (cst_report_free); docs/json.md#online. */
CST_API cst_status cst_online(cst_context *context, cst_adapter *adapter, cst_pool *pool,
                              const cst_online_options *options, float **predictions, int64_t *rows,
                              cst_report **report);

#ifdef __cplusplus
}
#endif
#endif
