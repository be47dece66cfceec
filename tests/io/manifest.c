/*
 * Manifests: what is read from one that has every key, and the whole message of each that is wrong.
 * Under the pool. docs/pool.md.
 */
#include "io_files.h"

#include "data/readers/manifest.h"

#include <math.h>

/* In these texts ' stands for ". */
static void put_manifest(fixture *f, const char *text) {
    char *copy = strdup(text);
    assert_non_null(copy);
    for (char *c = strchr(copy, '\''); c; c = strchr(c, '\''))
        *c = '"';
    put_text(f, "pool.json", copy);
    free(copy);
}

typedef struct fault {
    const char *text;
    cst_status code;
    const char *says; /* the message after the path of the manifest */
} fault;

static void expect_faults(fixture *f, const fault *faults, size_t count) {
    for (size_t i = 0; i < count; i++) {
        cst_manifest *manifest = NULL;
        char expected[1024];
        put_manifest(f, faults[i].text);
        cst_status status =
            cst_manifest_read_as(f->context, &manifest, at(f, "pool.json"), false, NULL);
        (void)snprintf(expected, sizeof expected, "%s%s", f->path, faults[i].says);
        if (status != faults[i].code || strcmp(cst_last_error(f->context), expected) != 0)
            fail_msg("%s\ngives %s: %s\ninstead of %s", faults[i].text, cst_status_name(status),
                     cst_last_error(f->context), expected);
        assert_null(manifest);
    }
}

#define EXPECT(f, faults) expect_faults(f, faults, sizeof(faults) / sizeof *(faults))
#define POOL(head, splits, models)                                                                 \
    "{'corestack_pool': 1, " head "'splits': " splits ", 'models': " models "}"
#define SPLIT "{'oof': {}}"
#define MODEL "[{'name': 'm', 'predictions': {'oof': 'm.npy'}}]"
#define TOP(head) POOL(head ", ", SPLIT, MODEL)
#define OF_SPLIT(rest) POOL("'classes': 3, ", "{'oof': {" rest "}, 'test': {}}", MODEL)
#define OF_MODEL(rest) POOL("", SPLIT, "[{'name': 'm', " rest "}]")
#define ENSEMBLE(rest) OF_MODEL("'ensemble': {" rest "}, 'predictions': {}")

static void heads(void **state) {
    static const fault faults[] = {
        {"[]", CST_ERROR_INPUT, ": the manifest must be an object {...}"},
        {"{}", CST_ERROR_INPUT, ": not a pool manifest: the key corestack_pool (1) is missing"},
        {"{'corestack_pool': '1'}", CST_ERROR_INPUT,
         ": corestack_pool must be 1, the only version so far"},
        {"{'corestack_pool': 2}", CST_ERROR_INPUT,
         ": corestack_pool must be 1, the only version so far"},
        {"{'corestack_pool': 1, 'tsak': 1}", CST_ERROR_INPUT,
         ": unknown key 'tsak' in the manifest; the known keys are corestack_pool, task, classes, "
         "output, outputs, layout, ignore, splits, models, training_counts, reference_errors"},
        {"{'corestack_pool': 1, 'corestack_pool': 1}", CST_ERROR_FORMAT,
         ": line 1, column 38 (byte 38): duplicate object key near '\"corestack_pool\"'"},
        {TOP("'task': 3"), CST_ERROR_INPUT,
         ": task must be \"classification\", \"regression\", \"segmentation\", "
         "\"detection\" or \"multilabel\""},
        {TOP("'task': 'clustering'"), CST_ERROR_INPUT,
         ": task must be \"classification\", \"regression\", \"segmentation\", "
         "\"detection\" or \"multilabel\""},
        {TOP("'output': 1"), CST_ERROR_INPUT, ": output must be \"probability\" or \"logit\""},
        {TOP("'output': 'odds'"), CST_ERROR_INPUT, ": output must be \"probability\" or \"logit\""},
        {TOP("'classes': 'two'"), CST_ERROR_INPUT, ": classes must be a list of names or a number"},
        {TOP("'classes': 1"), CST_ERROR_INPUT,
         ": classes: 1 classes; it must be between 2 and 16777216"},
        {TOP("'classes': 16777217"), CST_ERROR_INPUT,
         ": classes: 16777217 classes; it must be between 2 and 16777216"},
        {TOP("'classes': ['a', '']"), CST_ERROR_INPUT,
         ": classes[1] must be a non-empty name without control characters or bidirectional "
         "formatting characters"},
        {TOP("'classes': ['a', 'b', 3]"), CST_ERROR_INPUT,
         ": classes[2] must be a non-empty name without control characters or bidirectional "
         "formatting characters"},
        {TOP("'classes': ['a', 'b\\u007f']"), CST_ERROR_INPUT,
         ": classes[1] must be a non-empty name without control characters or bidirectional "
         "formatting characters"},
        {TOP("'classes': ['a', 'b', 'a']"), CST_ERROR_INPUT,
         ": classes[0] and classes[2] are both 'a'; names must be unique"},
        {TOP("'task': 'regression', 'outputs': 0"), CST_ERROR_INPUT,
         ": outputs: 0 outputs; it must be between 1 and 16777216"},
        {TOP("'task': 'segmentation', 'layout': 'rows'"), CST_ERROR_INPUT,
         ": layout must be \"channels-last\" or \"channels-first\""},
        {TOP("'task': 'segmentation', 'layout': 1"), CST_ERROR_INPUT,
         ": layout must be \"channels-last\" or \"channels-first\""},
        {TOP("'task': 'segmentation', 'ignore': 1.5"), CST_ERROR_INPUT,
         ": ignore must be the label of pixels to ignore, a whole number, or a list of at most 16"},
        {TOP("'task': 'segmentation', 'ignore': -3000000000"), CST_ERROR_INPUT,
         ": ignore must be the label of pixels to ignore, a whole number, or a list of at most 16"},
        {TOP("'layout': 'channels-last'"), CST_ERROR_INPUT,
         ": layout is not supported in pools of task 'classification'; remove it"},
        {TOP("'task': 'detection', 'output': 'logit'"), CST_ERROR_INPUT,
         ": output is not supported in pools of task 'detection'; remove it"},
        {TOP("'training_counts': 3"), CST_ERROR_INPUT,
         ": training_counts must be a list of counts, one per class, or a file"},
        {TOP("'training_counts': []"), CST_ERROR_INPUT,
         ": training_counts must be a list of counts, one per class, or a file"},
        {TOP("'training_counts': [3, -1]"), CST_ERROR_INPUT,
         ": training_counts[1] must be a whole number, 0 or more"},
        {TOP("'training_counts': [1.5]"), CST_ERROR_INPUT,
         ": training_counts[0] must be a whole number, 0 or more"},
        {TOP("'training_counts': ''"), CST_ERROR_INPUT,
         ": the manifest.training_counts must be a file name"},
        {TOP("'reference_errors': []"), CST_ERROR_INPUT,
         ": reference_errors: reference errors must be an object with an error for each kind of "
         "corruption"},
        {TOP("'reference_errors': {'fog': 'x'}"), CST_ERROR_INPUT,
         ": reference_errors: the reference error of 'fog' must be a fraction greater than 0 and "
         "at most 1, or a list of fractions, one per severity starting with the lowest"},
        {TOP("'reference_errors': {'fog': []}"), CST_ERROR_INPUT,
         ": reference_errors: the reference error of 'fog' must be a fraction greater than 0 and "
         "at most 1, or a list of fractions, one per severity starting with the lowest"},
        {TOP("'reference_errors': {'clean': 0, 'fog': 1}"), CST_ERROR_INPUT,
         ": reference_errors: the reference error of 'clean' must be a fraction greater than 0 and "
         "at most 1, or a list of fractions, one per severity starting with the lowest"},
        {"{'corestack_pool': 1, 'models': " MODEL "}", CST_ERROR_INPUT,
         ": splits must be an object with at least one split, e.g. \"oof\""},
        {POOL("", "{}", MODEL), CST_ERROR_INPUT,
         ": splits must be an object with at least one split, e.g. \"oof\""},
        {"{'corestack_pool': 1, 'splits': " SPLIT "}", CST_ERROR_INPUT,
         ": models must be a list of at least one model"},
        {POOL("", SPLIT, "[]"), CST_ERROR_INPUT, ": models must be a list of at least one model"},
    };
    EXPECT(*state, faults);
}

static void splits(void **state) {
    static const fault faults[] = {
        {POOL("", "{'oof': 3}", MODEL), CST_ERROR_INPUT, ": splits.oof must be an object {...}"},
        {POOL("", "{'': {}}", MODEL), CST_ERROR_INPUT, ": the split name '' is empty: name it"},
        {OF_SPLIT("'lables': 'y.npy'"), CST_ERROR_INPUT,
         ": unknown key 'lables' in splits.oof; the known keys are labels, targets, annotations, "
         "ids, folds, groups, conditions, ood, clean, domain, domains, weights, order, bytes"},
        {OF_SPLIT("'annotations': 'y.json'"), CST_ERROR_INPUT,
         ": splits.oof.annotations is not supported in pools of task 'classification'; remove it"},
        {POOL("'task': 'regression', ", "{'oof': {'labels': 'y.npy', 'targets': 'y.npy'}}", MODEL),
         CST_ERROR_INPUT,
         ": splits.oof.targets must be absent if labels is given: both name the targets"},
        {OF_SPLIT("'ood': 1"), CST_ERROR_INPUT, ": splits.oof.ood must be true or false"},
        {OF_SPLIT("'labels': 3"), CST_ERROR_INPUT, ": splits.oof.labels must be a file name"},
        {OF_SPLIT("'ids': ''"), CST_ERROR_INPUT, ": splits.oof.ids must be a file name"},
        {OF_SPLIT("'folds': []"), CST_ERROR_INPUT,
         ": splits.oof.folds must be a file name, or a list of 1 to 1048576 of them"},
        {OF_SPLIT("'groups': null"), CST_ERROR_INPUT, ": splits.oof.groups must be a file name"},
        {OF_SPLIT("'weights': {}"), CST_ERROR_INPUT, ": splits.oof.weights must be a file name"},
        {POOL("'task': 'detection', ", "{'oof': {'annotations': 1}}", MODEL), CST_ERROR_INPUT,
         ": splits.oof.annotations must be a file name"},
        {OF_SPLIT("'ood': true, 'weights': 'w.npy'"), CST_ERROR_INPUT,
         ": splits.oof.weights must be absent if ood is true: out-of-distribution rows have no "
         "weights"},
        {OF_SPLIT("'ood': true, 'labels': 'y.npy'"), CST_ERROR_INPUT,
         ": splits.oof is ood (out of distribution) and has labels; remove one of the two"},
        {OF_SPLIT("'clean': 3"), CST_ERROR_INPUT,
         ": splits.oof.clean must be a non-empty string without control characters or "
         "bidirectional formatting characters"},
        {OF_SPLIT("'domain': ''"), CST_ERROR_INPUT,
         ": splits.oof.domain must be a non-empty string without control characters or "
         "bidirectional formatting characters"},
        {OF_SPLIT("'clean': 'oof'"), CST_ERROR_INPUT,
         ": splits.oof.clean: 'oof' must be another split, with labels and without conditions"},
        {OF_SPLIT("'clean': 'tset'"), CST_ERROR_INPUT,
         ": splits.oof.clean: 'tset' must be another split, with labels and without conditions"},
        {POOL("", "{'a': {'ood': true}, 'b': {'clean': 'a'}}", MODEL), CST_ERROR_INPUT,
         ": splits.b.clean: 'a' must be another split, with labels and without conditions"},
        {POOL("", "{'a': {'conditions': [{}]}, 'b': {'clean': 'a'}}", MODEL), CST_ERROR_INPUT,
         ": splits.b.clean: 'a' must be another split, with labels and without conditions"},
    };
    EXPECT(*state, faults);
}

static void conditions(void **state) {
#define TWICE " have the same shift, kind and severity; remove one, or give them different kinds"
    static const fault faults[] = {
        {OF_SPLIT("'conditions': {}"), CST_ERROR_INPUT,
         ": splits.oof.conditions must be a non-empty list of objects"},
        {OF_SPLIT("'conditions': []"), CST_ERROR_INPUT,
         ": splits.oof.conditions must be a non-empty list of objects"},
        {OF_SPLIT("'conditions': [{}, 3]"), CST_ERROR_INPUT,
         ": splits.oof.conditions[1] must be an object {...}"},
        {OF_SPLIT("'conditions': [{'kinds': 'fog'}]"), CST_ERROR_INPUT,
         ": unknown key 'kinds' in splits.oof.conditions[0]; the known keys are shift, kind, "
         "severity"},
        {OF_SPLIT("'conditions': [{'shift': 1}]"), CST_ERROR_INPUT,
         ": splits.oof.conditions[0].shift must be a non-empty string without control characters "
         "or bidirectional formatting characters"},
        {OF_SPLIT("'conditions': [{}, {'kind': ''}]"), CST_ERROR_INPUT,
         ": splits.oof.conditions[1].kind must be a non-empty string without control characters or "
         "bidirectional formatting characters"},
        {OF_SPLIT("'conditions': [{'severity': -1}]"), CST_ERROR_INPUT,
         ": splits.oof.conditions[0].severity must be a non-negative number, at most 1e30"},
        {OF_SPLIT("'conditions': [{'severity': 1e999}]"), CST_ERROR_FORMAT,
         ": line 1, column 88 (byte 88): real number overflow near '1e999'"},
        {OF_SPLIT("'conditions': [{'severity': '1'}]"), CST_ERROR_INPUT,
         ": splits.oof.conditions[0].severity must be a non-negative number, at most 1e30"},
        {OF_SPLIT("'conditions': [{'shift': 'a'}, {'kind': 'b'}, {'shift': 'a'}]"), CST_ERROR_INPUT,
         ": splits.oof.conditions[0] and [2]" TWICE},
        {OF_SPLIT("'conditions': [{'kind': 'b'}, {}, {'kind': 'b'}, {}]"), CST_ERROR_INPUT,
         ": splits.oof.conditions[0] and [2]" TWICE},
        {OF_SPLIT("'conditions': [{'severity': 2}, {'severity': 1}, {'severity': 2.0}]"),
         CST_ERROR_INPUT, ": splits.oof.conditions[0] and [2]" TWICE},
    };
    EXPECT(*state, faults);
}

static void models(void **state) {
    static const char kinds[] = ": models[0].ensemble.kind must be \"deep-ensemble\", "
                                "\"snapshot\", \"mc-dropout\", \"swag\" or \"soup\"";
    static const char passes[] =
        ": models[0].ensemble.passes must be a whole number from 1 to 1000000";
    const fault faults[] = {
        {POOL("", SPLIT, "[3]"), CST_ERROR_INPUT, ": models[0] must be an object {...}"},
        {POOL("", SPLIT, "[{}]"), CST_ERROR_INPUT,
         ": models[0].name must be the name of the model"},
        {POOL("", SPLIT, "[{'name': 3}]"), CST_ERROR_INPUT,
         ": models[0].name must be the name of the model"},
        {POOL("", SPLIT, "[{'name': ''}]"), CST_ERROR_INPUT,
         ": the model name '' is empty: name it"},
        {POOL("", SPLIT, "[{'name': 'a', 'predictions': {}}, {'name': 'a'}]"), CST_ERROR_INPUT,
         ": models[1] has the name 'a' of models[0]; names must be unique"},
        {OF_MODEL("'predicitons': {}"), CST_ERROR_INPUT,
         ": unknown key 'predicitons' in models[0]; the known keys are name, family, flops, "
         "params, latency_ms, memory_bytes, ensemble, predictions"},
        {OF_MODEL("'family': ''"), CST_ERROR_INPUT,
         ": models[0].family must be a non-empty string without control characters or "
         "bidirectional formatting characters"},
        {OF_MODEL("'flops': -1"), CST_ERROR_INPUT,
         ": models[0].flops must be a non-negative number, at most 1e30"},
        {OF_MODEL("'flops': 1.1e30"), CST_ERROR_INPUT,
         ": models[0].flops must be a non-negative number, at most 1e30"},
        {OF_MODEL("'params': '1'"), CST_ERROR_INPUT,
         ": models[0].params must be a non-negative number, at most 1e30"},
        {OF_MODEL("'latency_ms': -0.5"), CST_ERROR_INPUT,
         ": models[0].latency_ms must be a non-negative number, at most 1e30"},
        {OF_MODEL("'memory_bytes': '2 GB'"), CST_ERROR_INPUT,
         ": models[0].memory_bytes must be a non-negative number, at most 1e30"},
        {OF_MODEL("'ensemble': 3"), CST_ERROR_INPUT,
         ": models[0].ensemble must be an object {...}"},
        {ENSEMBLE("'of': 'm'"), CST_ERROR_INPUT, kinds},
        {ENSEMBLE("'kind': 'bagging', 'of': 'm'"), CST_ERROR_INPUT, kinds},
        {ENSEMBLE("'kind': 'swag', 'of': 'm', 'passes': 0"), CST_ERROR_INPUT, passes},
        {ENSEMBLE("'kind': 'swag', 'of': 'm', 'passes': 2.5"), CST_ERROR_INPUT, passes},
        {ENSEMBLE("'kind': 'swag', 'of': 'm', 'passes': 1000001"), CST_ERROR_INPUT, passes},
        {ENSEMBLE("'kind': 'soup'"), CST_ERROR_INPUT,
         ": models[0].ensemble.of must be the name of the ensemble, the same for all its members"},
        {ENSEMBLE("'kind': 'soup', 'of': 1"), CST_ERROR_INPUT,
         ": models[0].ensemble.of must be a non-empty string without control characters or "
         "bidirectional formatting characters"},
        {OF_MODEL("'predictions': []"), CST_ERROR_INPUT,
         ": models[0].predictions must be an object with a file for each split"},
        {OF_MODEL("'predictions': {'tset': 'm.npy'}"), CST_ERROR_INPUT,
         ": models[0].predictions.tset: splits has no split 'tset'; add it there"},
        {OF_MODEL("'predictions': {'oof': 3}"), CST_ERROR_INPUT,
         ": models[0].predictions.oof must be a file name"},
        {OF_MODEL("'predictions': {'oof': {'paht': 'm.npy'}}"), CST_ERROR_INPUT,
         ": unknown key 'paht' in models[0].predictions.oof; the known keys are path, ids"},
        {OF_MODEL("'predictions': {'oof': {'ids': 'i.npy'}}"), CST_ERROR_INPUT,
         ": models[0].predictions.oof.path must be a file name"},
        {OF_MODEL("'predictions': {'oof': {'path': 'm.npy', 'ids': 3}}"), CST_ERROR_INPUT,
         ": models[0].predictions.oof.ids must be a file name"},
    };
    EXPECT(*state, faults);
}

/* Where a file is from: in its folder, with '..' in the name of an array or a folder only. */
static void files(void **state) {
    fixture *f = *state;
    static const fault faults[] = {
        {OF_SPLIT("'labels': '/y.npy'"), CST_ERROR_INPUT,
         ": splits.oof.labels refers to a file outside the folder of the manifest: '/y.npy' is an "
         "absolute path; make it relative, or allow files outside the folder"},
        {OF_SPLIT("'labels': 'a/../y.npy'"), CST_ERROR_INPUT,
         ": splits.oof.labels refers to a file outside the folder of the manifest: 'a/../y.npy' "
         "contains '..'; use a path inside that folder, or allow files outside it"},
    };
    static const char *const good[] = {"a/y.npy", "a/",           "..a/y..npy",
                                       "...",     "y.npz#a/../b", "a//y"};
    EXPECT(f, faults);
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        char text[256];
        char expected[256];
        cst_manifest *manifest = NULL;
        (void)snprintf(text, sizeof text, OF_SPLIT("'labels': '%s'"), good[i]);
        put_manifest(f, text);
        expect_ok(f, cst_manifest_read_as(f->context, &manifest, at(f, "pool.json"), false, NULL));
        (void)snprintf(expected, sizeof expected, "%s/%s", f->folder, good[i]);
        assert_string_equal(manifest->splits[0].labels, expected);
        cst_manifest_free(f->context, manifest);
    }
    /* allowed outside, a path is what it says */
    cst_manifest *manifest = NULL;
    put_manifest(f, OF_SPLIT("'labels': '/a/../y.npy', 'ids': '../i.npy'"));
    expect_ok(f, cst_manifest_read_as(f->context, &manifest, at(f, "pool.json"), true, NULL));
    assert_string_equal(manifest->splits[0].labels, "/a/../y.npy");
    assert_string_equal(manifest->splits[0].ids, at(f, "../i.npy"));
    cst_manifest_free(f->context, manifest);
}

/* A manifest in the current folder, of which no folder is said. */
static void a_path_without_a_folder(void **state) {
    fixture *f = *state;
    cst_manifest *manifest = NULL;
    char before[4096];
    put_manifest(f, OF_SPLIT("'labels': 'y.npy'"));
    assert_non_null(getcwd(before, sizeof before));
    assert_int_equal(chdir(f->folder), 0);
    cst_status status = cst_manifest_read_as(f->context, &manifest, "pool.json", false, NULL);
    assert_int_equal(chdir(before), 0);
    expect_ok(f, status);
    assert_string_equal(manifest->splits[0].labels, "y.npy");
    char *real = realpath(f->folder, NULL);
    assert_string_equal(manifest->folder, real);
    free(real);
    cst_manifest_free(f->context, manifest);
}

static void every_key_of_a_classification(void **state) {
    fixture *f = *state;
    cst_manifest *m = NULL;
    put_manifest(
        f,
        "{'corestack_pool': 1, 'task': 'classification', 'classes': ['cat', 'dog'], 'output': "
        "'logit', 'training_counts': [7, 0], 'reference_errors': {'clean': 0.25, 'fog': [0.5, 1], "
        "'snow': 0.75}, 'splits': {"
        "'oof': {'labels': 'y.npy', 'ids': 'i.npy', 'folds': 'f.npy', 'groups': 'g.npy', "
        "'weights': 'w.npy', 'ood': false}, 'far': {'ood': true, 'domain': 'sketches'}, 'fog': "
        "{'labels': 'z.npy', 'clean': 'oof', 'conditions': [{'shift': 'weather', 'kind': 'fog', "
        "'severity': 2}, {'shift': 'weather', 'kind': 'fog', 'severity': 1}, {'kind': 'fog'}, "
        "{'shift': 'weather', 'kind': 'fog'}, {'shift': 'weather'}, {}, {}]}}, 'models': ["
        "{'name': 'a', 'family': 'big', 'flops': 1e9, 'params': 3, 'latency_ms': 0.5, "
        "'memory_bytes': 7e8, 'ensemble': {'kind': 'mc-dropout', 'of': 'all', 'passes': 20}, "
        "'predictions': {'oof': 'a.npy', 'fog': "
        "{'path': 'b.npz#x', 'ids': 'c.npy'}}}, {'name': 'b', 'predictions': {}}]}");
    expect_ok(f, cst_manifest_read_as(f->context, &m, at(f, "pool.json"), false, NULL));
    assert_true(m->task_given && m->task == CST_TASK_CLASSIFICATION);
    assert_int_equal(m->classes, 2);
    assert_string_equal(m->class_names[1], "dog");
    assert_true(m->output_given && m->logits && !m->ignore_given);
    assert_int_equal(m->training_count_classes, 2);
    assert_true(m->training_counts[0] == 7 && m->training_counts[1] == 0);
    assert_null(m->training_counts_file);
    assert_true(m->reference_errors.clean == 0.25);
    assert_string_equal(m->reference_errors.source, "the manifest");
    const cst_reference_error *fog = cst_reference_errors_find(&m->reference_errors, "fog");
    assert_non_null(fog);
    assert_true(fog->count == 2 && fog->errors[0] == 0.5 && fog->errors[1] == 1);
    assert_null(cst_reference_errors_find(&m->reference_errors, "clean"));
    assert_int_equal(m->split_count, 3);
    const cst_manifest_split *oof = &m->splits[cst_manifest_find_split(m, "oof")];
    assert_string_equal(oof->labels, at(f, "y.npy"));
    assert_string_equal(oof->ids, at(f, "i.npy"));
    assert_string_equal(oof->folds, at(f, "f.npy"));
    assert_string_equal(oof->groups, at(f, "g.npy"));
    assert_string_equal(oof->weights, at(f, "w.npy"));
    assert_true(!oof->ood && !oof->clean && !oof->domain && oof->condition_count == 0);
    const cst_manifest_split *far = &m->splits[cst_manifest_find_split(m, "far")];
    assert_true(far->ood && !far->labels);
    assert_string_equal(far->domain, "sketches");
    int32_t place = cst_manifest_find_split(m, "fog");
    const cst_manifest_split *shifted = &m->splits[place];
    assert_string_equal(shifted->clean, "oof");
    assert_int_equal(shifted->condition_count, 7);
    assert_string_equal(shifted->conditions[0].shift, "weather");
    assert_string_equal(shifted->conditions[2].kind, "fog");
    assert_null(shifted->conditions[2].shift);
    assert_true(shifted->conditions[1].severity == 1 && isnan(shifted->conditions[5].severity));
    const cst_manifest_member *a = &m->members[0];
    assert_string_equal(a->name, "a");
    assert_string_equal(a->family, "big");
    assert_true(a->flops == 1e9 && a->params == 3 && a->latency_ms == 0.5 &&
                a->memory_bytes == 7e8);
    assert_string_equal(cst_ensemble_kinds[a->ensemble], "mc-dropout");
    assert_string_equal(a->ensemble_of, "all");
    assert_int_equal(a->ensemble_passes, 20);
    assert_string_equal(a->paths[cst_manifest_find_split(m, "oof")], at(f, "a.npy"));
    assert_string_equal(a->paths[place], at(f, "b.npz#x"));
    assert_string_equal(a->ids[place], at(f, "c.npy"));
    assert_null(a->paths[cst_manifest_find_split(m, "far")]);
    const cst_manifest_member *b = &m->members[1];
    assert_true(!b->family && isnan(b->flops) && b->ensemble == 0 && !b->paths[place]);
    cst_manifest_free(f->context, m);
}

static void keys_of_other_tasks(void **state) {
    fixture *f = *state;
    cst_manifest *m = NULL;
    put_manifest(f, POOL("'task': 'segmentation', 'classes': 3, 'layout': 'channels-first', "
                         "'ignore': -1, 'output': 'probability', ",
                         SPLIT, MODEL));
    expect_ok(f, cst_manifest_read_as(f->context, &m, at(f, "pool.json"), false, NULL));
    assert_true(m->task == CST_TASK_SEGMENTATION && m->layout == CST_LAYOUT_CHANNELS_FIRST);
    assert_true(m->ignore_given && m->ignore == -1 && m->output_given && !m->logits);
    cst_manifest_free(f->context, m);
    put_manifest(f, POOL("'task': 'segmentation', 'layout': 'channels-last', ", SPLIT, MODEL));
    expect_ok(f, cst_manifest_read_as(f->context, &m, at(f, "pool.json"), false, NULL));
    assert_true(m->layout == CST_LAYOUT_CHANNELS_LAST && !m->ignore_given);
    cst_manifest_free(f->context, m);
    put_manifest(f, POOL("'task': 'regression', 'outputs': ['width', 'height'], ",
                         "{'oof': {'targets': 't.npy'}}", MODEL));
    expect_ok(f, cst_manifest_read_as(f->context, &m, at(f, "pool.json"), false, NULL));
    assert_true(m->outputs == 2 && m->classes == 0);
    assert_string_equal(m->output_names[0], "width");
    assert_string_equal(m->splits[0].labels, at(f, "t.npy"));
    cst_manifest_free(f->context, m);
    put_manifest(f, POOL("'task': 'detection', 'classes': 1, ",
                         "{'oof': {'annotations': 'gt.json'}}", MODEL));
    expect_ok(f, cst_manifest_read_as(f->context, &m, at(f, "pool.json"), false, NULL));
    assert_int_equal(m->classes, 1);
    assert_string_equal(m->splits[0].annotations, at(f, "gt.json"));
    cst_manifest_free(f->context, m);
    put_manifest(f, TOP("'training_counts': 'n.npy'"));
    expect_ok(f, cst_manifest_read_as(f->context, &m, at(f, "pool.json"), false, NULL));
    assert_true(!m->task_given && !m->training_counts);
    assert_string_equal(m->training_counts_file, at(f, "n.npy"));
    cst_manifest_free(f->context, m);
}

/* Where the manifest does not say the task, the caller's decides which keys there may be. */
static void keys_of_the_callers_task(void **state) {
    fixture *f = *state;
    cst_manifest *m = NULL;
    const cst_task segmentation = CST_TASK_SEGMENTATION;
    const cst_task regression = CST_TASK_REGRESSION;
    put_manifest(f, OF_SPLIT("'conditions': [{}, {}]"));
    expect_error(f, cst_manifest_read_as(f->context, &m, at(f, "pool.json"), false, &segmentation),
                 CST_ERROR_INPUT,
                 ": splits.oof.conditions is not supported in pools of task 'segmentation'", NULL);
    expect_error(f, cst_manifest_read_as(f->context, &m, at(f, "pool.json"), false, &regression),
                 CST_ERROR_INPUT, ": classes is not supported in pools of task 'regression'", NULL);
    put_manifest(f, POOL("'outputs': 2, ", "{'oof': {'targets': 't.npy'}}", MODEL));
    expect_ok(f, cst_manifest_read_as(f->context, &m, at(f, "pool.json"), false, &regression));
    assert_true(m->task == CST_TASK_REGRESSION && !m->task_given && m->outputs == 2);
    cst_manifest_free(f->context, m);
    m = NULL;
    put_manifest(f, POOL("'task': 'detection', ", SPLIT, MODEL));
    expect_error(f, cst_manifest_read_as(f->context, &m, at(f, "pool.json"), false, &regression),
                 CST_ERROR_INPUT, ": its task is detection, but regression was requested", NULL);
    assert_null(m);
}

/* Only rows are joined by ids of a member's own. */
static void ids_of_members_that_are_no_rows(void **state) {
    static const fault faults[] = {
        {POOL("'task': 'segmentation', 'classes': 2, ", SPLIT,
              "[{'name': 'm', 'predictions': {'oof': {'path': 'm.npy', 'ids': 'i.npy'}}}]"),
         CST_ERROR_INPUT,
         ": models[0].predictions.oof.ids is not supported in pools of task 'segmentation': cases "
         "are matched by position in an array and by file name in a folder; reorder the array like "
         "the split, or use a folder, and remove the ids"},
        {POOL("'task': 'detection', ", SPLIT,
              "[{'name': 'm', 'predictions': {'oof': {'path': 'm.json', 'ids': 'i.npy'}}}]"),
         CST_ERROR_INPUT,
         ": models[0].predictions.oof.ids is not supported in pools of task 'detection': boxes are "
         "matched by image id; remove it"}};
    EXPECT(*state, faults);
}

/* A hole of more than 64 MiB: its length alone is looked at. */
static void a_manifest_that_is_too_long(void **state) {
    fixture *f = *state;
    cst_manifest *manifest = NULL;
    put_text(f, "pool.json", "{");
    assert_int_equal(truncate(at(f, "pool.json"), (64 << 20) + 1), 0);
    expect_error(f, cst_manifest_read_as(f->context, &manifest, at(f, "pool.json"), false, NULL),
                 CST_ERROR_LIMIT, ": has 67108865 bytes; the limit is 67108864", NULL);
    assert_null(manifest);
}

/* Names go into messages and files: of 1 to 255 bytes, UTF-8, without control characters and marks
 * of writing direction. */
static void names(void **state) {
    fixture *f = *state;
    static const char *const bad[] = {
        "a\x07",         "a\x7f",         "a\xff",         "",
        "a\xC2\x9B",     "a\xE2\x80\xAE", "a\xE2\x80\x8F", "a\xD8\x9C",
        "a\xE2\x81\xA6", "a\xE2\x80\xA8", "a\xEF\xBB\xBF", "a\xF3\xA0\x81\x81"};
    /* Persian with a joiner that keeps letters apart, Hindi with one that joins, Hebrew, a flag */
    static const char *const good[] = {
        "\xD9\x85\xDB\x8C\xE2\x80\x8C\xD8\xAE", "\xE0\xA4\x95\xE0\xA5\x8D\xE2\x80\x8D\xE0\xA4\xB7",
        "\xD7\xA9\xD7\x9C\xD7\x95\xD7\x9D", "\xF0\x9F\x87\xAB\xF0\x9F\x87\xB7"};
    char name[300];
    int32_t index = -1;
    cst_manifest *m = NULL;
    expect_ok(f, cst_manifest_create(f->context, &m, "P"));
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        const char *says = i == 2   ? "is not valid UTF-8 (is it Latin-1"
                           : i == 3 ? "is empty: name it"
                                    : "has control characters or bidirectional formatting";
        expect_error(f, cst_manifest_add_split(f->context, m, bad[i], &index), CST_ERROR_INPUT,
                     "P: the split name '", says, NULL);
        expect_error(f, cst_manifest_add_member(f->context, m, bad[i], &index), CST_ERROR_INPUT,
                     "P: the model name '", says, NULL);
    }
    memset(name, 'n', sizeof name);
    name[256] = '\0';
    expect_error(f, cst_manifest_add_split(f->context, m, name, &index), CST_ERROR_INPUT,
                 "longer than 255 bytes", NULL);
    name[255] = '\0';
    for (int again = 0; again < 2; again++) { /* what is there is found */
        expect_ok(f, cst_manifest_add_split(f->context, m, name, &index));
        assert_int_equal(index, 0);
        expect_ok(f, cst_manifest_add_member(f->context, m, name, &index));
        assert_int_equal(index, 0);
    }
    assert_true(m->split_count == 1 && m->member_count == 1);
    cst_manifest_free(f->context, m);
    expect_ok(f, cst_manifest_create(f->context, &m, "P"));
    for (int32_t i = 0; i < 4; i++) {
        expect_ok(f, cst_manifest_add_split(f->context, m, good[i], &index));
        assert_int_equal(index, i);
    }
    for (int32_t i = 0; i < 4; i++) {
        expect_ok(f, cst_manifest_add_member(f->context, m, good[i], &index));
        assert_int_equal(index, i);
    }
    for (int32_t i = 0; i < 4; i++) {
        assert_int_equal(cst_manifest_find_split(m, good[i]), i);
        assert_int_equal(cst_manifest_find_member(m, good[i]), i);
    }
    assert_int_equal(cst_manifest_find_split(m, "none"), -1);
    assert_int_equal(cst_manifest_find_member(m, ""), -1);
    cst_manifest_free(f->context, m);
}

/* Folders that files stay in, and paths that the caller named himself. */
static void folders_to_stay_in(void **state) {
    fixture *f = *state;
    cst_manifest *m = NULL;
    expect_ok(f, cst_manifest_create(f->context, &m, "P"));
    expect_ok(f, cst_manifest_confine(f->context, m, "/anywhere"));
    expect_error(f, cst_manifest_stay_in(f->context, m, "/nonexistent/folder"), CST_ERROR_IO,
                 "P: cannot find its folder: No such file or directory", NULL);
    expect_ok(f, cst_manifest_stay_in(f->context, m, f->folder));
    expect_error(f, cst_manifest_confine(f->context, m, "/nonexistent/y.npy"), CST_ERROR_INPUT,
                 "/nonexistent/y.npy: is outside the folder of P (it leads to /)", NULL);
    expect_error(f, cst_manifest_confine(f->context, m, "nonexistent/y.npy"), CST_ERROR_INPUT,
                 "nonexistent/y.npy: is outside the folder of P (it leads to /", NULL);
    assert_int_equal(symlink("loop", at(f, "loop")), 0);
    expect_error(f, cst_manifest_confine(f->context, m, at(f, "loop/y.npy")), CST_ERROR_IO,
                 "loop/y.npy: not found: Too many levels of symbolic links", NULL);
    put_text(f, "file", "");
    expect_error(f, cst_manifest_confine(f->context, m, at(f, "file/y.npy")), CST_ERROR_IO,
                 "file/y.npy: not found: Not a directory", NULL);
    expect_ok(f, cst_manifest_confine(f->context, m, f->folder));
    expect_ok(f, cst_manifest_allow(f->context, m, "/given/"));
    expect_ok(f, cst_manifest_allow(f->context, m, "/more"));
    expect_ok(f, cst_manifest_confine(f->context, m, "/given/y.npy"));
    expect_ok(f, cst_manifest_confine(f->context, m, "/more"));
    expect_ok(f, cst_manifest_confine(f->context, m, "/more/y.npy"));
    expect_error(f, cst_manifest_confine(f->context, m, "/mores/y.npy"), CST_ERROR_INPUT,
                 "is outside the folder", NULL);
    for (int i = 2; i < CST_MANIFEST_GIVEN_MAX; i++)
        expect_ok(f, cst_manifest_allow(f->context, m, "/more"));
    expect_error(f, cst_manifest_allow(f->context, m, "/one-more"), CST_ERROR_INTERNAL,
                 "/one-more: too many paths", NULL);
    cst_manifest_free(f->context, m);
    /* in the root folder everything is */
    expect_ok(f, cst_manifest_create(f->context, &m, "P"));
    expect_ok(f, cst_manifest_stay_in(f->context, m, "/"));
    expect_ok(f, cst_manifest_confine(f->context, m, "/nonexistent/y.npy"));
    expect_ok(f, cst_manifest_confine(f->context, m, at(f, "y.npz#a/../b")));
    cst_manifest_free(f->context, m);
}

/* Reference errors of a file and of a manifest have the same form. */
static void files_of_reference_errors(void **state) {
    fixture *f = *state;
    cst_reference_errors errors;
    put_text(f, "e.json", "{\"fog\": [0.5, 0.25], \"clean\": 0.1}");
    expect_ok(f, cst_reference_errors_read(f->context, at(f, "e.json"), &errors));
    assert_true(errors.clean == 0.1 && errors.count == 1 && errors.kinds[0].errors[1] == 0.25);
    assert_null(cst_reference_errors_find(&errors, NULL));
    cst_reference_errors_free(f->context, &errors);
    put_text(f, "e.json", "{\"fog\": [0.5, true]}");
    expect_error(f, cst_reference_errors_read(f->context, at(f, "e.json"), &errors),
                 CST_ERROR_INPUT, "e.json: the reference error of 'fog' must be a fraction", NULL);
    cst_reference_errors_free(f->context, &errors);
    put_text(f, "e.json", "{\"fog\": 1.5}");
    expect_error(f, cst_reference_errors_read(f->context, at(f, "e.json"), &errors),
                 CST_ERROR_INPUT, "e.json: the reference error of 'fog' must be a fraction", NULL);
    cst_reference_errors_free(f->context, &errors);
    put_text(f, "e.json", "{");
    assert_int_equal(truncate(at(f, "e.json"), (1 << 20) + 1), 0);
    expect_error(f, cst_reference_errors_read(f->context, at(f, "e.json"), &errors),
                 CST_ERROR_LIMIT, "e.json: has 1048577 bytes; the limit is 1048576", NULL);
    cst_reference_errors_free(f->context, &errors);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, files_setup, files_teardown)

int suite_manifest(void) {
    const struct CMUnitTest tests[] = {
        TEST(heads),
        TEST(splits),
        TEST(conditions),
        TEST(models),
        TEST(files),
        TEST(a_path_without_a_folder),
        TEST(every_key_of_a_classification),
        TEST(keys_of_other_tasks),
        TEST(keys_of_the_callers_task),
        TEST(ids_of_members_that_are_no_rows),
        TEST(a_manifest_that_is_too_long),
        TEST(names),
        TEST(folders_to_stay_in),
        TEST(files_of_reference_errors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
