// SPDX-License-Identifier: Apache-2.0
// The 150 programs made with JAX and XLA, on the reference device, from text
// and from messages; and the programs that must be refused.
#include <dirent.h>
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "core/base/mem.h"
#include "core/device/reference/half.h"
#include "core/device/reference/reference.h"
#include "core/driver/rendezvous.h"
#include "tests/lib/npy_file.h"

enum { MAX_REPLICAS = 8, MAX_LEAVES = 64, PATH_ROOM = 2048 };

static struct pod_device *device;

static const char *programs_dir(void)
{
    const char *dir = getenv("POD_PROGRAMS");

    if (dir == NULL)
        fail_msg("POD_PROGRAMS does not name the folder of the programs");
    return dir;
}

static int setup(void **state)
{
    const struct pod_reference_options options = {.core_count = MAX_REPLICAS,
                                                  .memory_bytes = 64 << 20};

    (void)state;
    return pod_reference_device_new(&options, &device, NULL);
}

static int teardown(void **state)
{
    (void)state;
    device->ops->free(device);
    return pod_mem_live() == 0 ? 0 : -1;
}

// ------------------------------------------------------------------ comparing

static double element(enum pod_type type, const unsigned char *data, size_t i)
{
    union {
        float f32;
        double f64;
        int32_t s32;
        int64_t s64;
        uint32_t u32;
        uint16_t half;
    } value;

    memcpy(&value, data + i * pod_type_bytes(type), pod_type_bytes(type));
    if (type == POD_TYPE_F32)
        return (double)value.f32;
    if (type == POD_TYPE_F64)
        return value.f64;
    if (type == POD_TYPE_F16)
        return (double)pod_ref_from_f16(value.half);
    if (type == POD_TYPE_BF16)
        return (double)pod_ref_from_bf16(value.half);
    if (type == POD_TYPE_S32)
        return value.s32;
    if (type == POD_TYPE_U32)
        return value.u32;
    if (type == POD_TYPE_S64)
        return (double)value.s64;
    return data[i];
}

static bool same_float(double got, double want, double rtol, double atol)
{
    if (isnan(want))
        return isnan(got);
    if (isinf(want) || isinf(got))
        return got == want;
    if (rtol == 0 && atol == 0)
        return got == want && signbit(got) == signbit(want);
    return fabs(got - want) <= atol + rtol * fabs(want);
}

static bool same_array(const struct pod_shape *shape, const json_t *tolerance,
                       const unsigned char *got, const unsigned char *want,
                       const char *name)
{
    size_t count = (size_t)pod_shape_elements(shape);
    double rtol = json_number_value(json_object_get(tolerance, "rtol"));
    double atol = json_number_value(json_object_get(tolerance, "atol"));

    if (!pod_type_is_float(shape->type) && rtol == 0 && atol == 0)
        return memcmp(got, want, (size_t)pod_shape_bytes(shape)) == 0;
    for (size_t i = 0; i < count; i++) {
        double a = element(shape->type, got, i);
        double b = element(shape->type, want, i);
        if (same_float(a, b, rtol, atol))
            continue;
        print_message("%s: element %zu is %.17g, not %.17g\n", name, i, a, b);
        return false;
    }
    return true;
}

// -------------------------------------------------------------------- running

struct leaves {
    const struct pod_shape *shapes[MAX_LEAVES];
    struct pod_device_buffer *buffers[MAX_LEAVES];
    size_t count;
    struct pod_device_buffer *tuples[MAX_LEAVES];
    size_t tuple_count;
};

struct replica {
    struct leaves inputs;
    struct leaves outputs;
    struct pod_device_buffer *params[MAX_LEAVES];
    struct pod_device_buffer *result;
    struct pod_device_launch launch;
    struct pod_interrupt interrupt;
    struct pod_gang *gang;
    enum pod_code code;
    struct pod_err err;
};

// A buffer for a shape, tuples and all; the arrays are appended to `leaves`.
static struct pod_device_buffer *
make_buffer(uint32_t core, const struct pod_shape *shape, struct leaves *leaves)
{
    struct pod_device_buffer *children[MAX_LEAVES];
    struct pod_device_buffer *buffer;

    assert_true(leaves->count < MAX_LEAVES && leaves->tuple_count < MAX_LEAVES);
    if (shape->type != POD_TYPE_TUPLE) {
        assert_int_equal(
            device->ops->allocate(device, core, shape, 0, &buffer, NULL),
            POD_OK);
        leaves->shapes[leaves->count] = shape;
        leaves->buffers[leaves->count++] = buffer;
        return buffer;
    }
    assert_true(shape->child_count <= MAX_LEAVES);
    for (size_t i = 0; i < shape->child_count; i++)
        children[i] = make_buffer(core, &shape->children[i], leaves);
    assert_int_equal(device->ops->allocate_tuple(device, core, children,
                                                 shape->child_count, &buffer,
                                                 NULL),
                     POD_OK);
    leaves->tuples[leaves->tuple_count++] = buffer;
    return buffer;
}

static void free_leaves(struct leaves *leaves)
{
    for (size_t i = 0; i < leaves->tuple_count; i++)
        device->ops->release(device, leaves->tuples[i]);
    for (size_t i = 0; i < leaves->count; i++)
        device->ops->release(device, leaves->buffers[i]);
}

// DIR/NAME/NAME[.rN].in0.npy
static void data_path(char *path, const char *name, uint32_t replica,
                      uint32_t replicas, const char *what, size_t index)
{
    char part[24] = "";

    if (replicas > 1)
        snprintf(part, sizeof(part), ".r%u", replica);
    snprintf(path, PATH_ROOM, "%.1000s/%.300s/%.300s%s.%s%zu.npy",
             programs_dir(), name, name, part, what, index);
}

static void prepare(struct replica *replica, const char *name, uint32_t index,
                    uint32_t replicas, struct pod_device_program *program)
{
    const struct pod_program_shape *shape = device->ops->program_shape(program);

    assert_true(shape->count <= MAX_LEAVES);
    for (size_t i = 0; i < shape->count; i++)
        replica->params[i] =
            make_buffer(index, &shape->parameters[i], &replica->inputs);
    replica->result = make_buffer(index, &shape->result, &replica->outputs);
    for (size_t i = 0; i < replica->inputs.count; i++) {
        struct npy_file file;
        char path[PATH_ROOM];
        data_path(path, name, index, replicas, "in", i);
        npy_file_read(path, &file);
        assert_int_equal(file.bytes,
                         pod_shape_bytes(replica->inputs.shapes[i]));
        assert_int_equal(device->ops->write(device, replica->inputs.buffers[i],
                                            0, file.data, file.bytes, NULL,
                                            NULL),
                         POD_OK);
        npy_file_free(&file);
    }
    replica->launch = (struct pod_device_launch){
        .program = program,
        .core = index,
        .inputs = replica->params,
        .input_count = shape->count,
        .outputs = &replica->result,
        .output_count = 1,
        .replica = index,
        .replica_count = replicas,
        .interrupt = &replica->interrupt,
    };
}

static void *run_replica(void *arg)
{
    struct replica *replica = arg;

    if (replica->gang != NULL)
        replica->code = pod_gang_arrive(replica->gang, replica->launch.replica,
                                        &replica->interrupt, &replica->err);
    if (replica->code == POD_OK)
        replica->code =
            device->ops->execute(device, &replica->launch, &replica->err);
    if (replica->gang != NULL)
        pod_gang_leave(replica->gang, replica->launch.replica,
                       replica->code == POD_OK ? NULL : &replica->err);
    return NULL;
}

static void run_all(struct replica *replicas, uint32_t count)
{
    const uint32_t hosts[MAX_REPLICAS] = {0};
    struct pod_gang_hub *hub = pod_gang_hub_new(1);
    pthread_t threads[MAX_REPLICAS];

    if (count == 1) {
        pod_gang_hub_unref(hub);
        run_replica(&replicas[0]);
        return;
    }
    assert_non_null(hub);
    for (uint32_t i = 0; i < count; i++) {
        assert_int_equal(
            pod_gang_join(hub, 1, count, hosts, &replicas[i].gang, NULL),
            POD_OK);
        replicas[i].launch.exchange = pod_gang_exchange(replicas[i].gang);
    }
    for (uint32_t i = 0; i < count; i++)
        assert_int_equal(
            pthread_create(&threads[i], NULL, run_replica, &replicas[i]), 0);
    for (uint32_t i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
    for (uint32_t i = 0; i < count; i++)
        pod_gang_unref(replicas[i].gang);
    pod_gang_hub_unref(hub);
}

static bool check_results(const struct replica *replica, const char *name,
                          uint32_t replicas, const json_t *about)
{
    const json_t *tolerances = json_object_get(about, "tolerance");
    bool good = true;

    if (replica->code != POD_OK) {
        print_message("%s: %s\n", name, replica->err.text);
        return false;
    }
    assert_int_equal(replica->outputs.count,
                     json_array_size(json_object_get(about, "results")));
    for (size_t i = 0; i < replica->outputs.count; i++) {
        const struct pod_shape *shape = replica->outputs.shapes[i];
        size_t bytes = (size_t)pod_shape_bytes(shape);
        unsigned char *got = malloc(bytes + 1);
        struct npy_file want;
        char path[PATH_ROOM];

        assert_non_null(got);
        data_path(path, name, replica->launch.replica, replicas, "out", i);
        npy_file_read(path, &want);
        assert_int_equal(want.bytes, bytes);
        assert_int_equal(device->ops->read(device, replica->outputs.buffers[i],
                                           0, got, bytes, NULL, NULL),
                         POD_OK);
        if (!same_array(shape, json_array_get(tolerances, i), got, want.data,
                        name))
            good = false;
        npy_file_free(&want);
        free(got);
    }
    return good;
}

static bool run_program(const char *name, uint32_t count,
                        struct pod_device_program *program, const json_t *about)
{
    struct replica *replicas = calloc(count, sizeof(*replicas));
    bool good = true;

    assert_non_null(replicas);
    for (uint32_t i = 0; i < count; i++)
        prepare(&replicas[i], name, i, count, program);
    run_all(replicas, count);
    for (uint32_t i = 0; i < count; i++) {
        good = check_results(&replicas[i], name, count, about) && good;
        free_leaves(&replicas[i].inputs);
        free_leaves(&replicas[i].outputs);
    }
    free(replicas);
    return good;
}

// ----------------------------------------------------------- all the programs

struct tally {
    int good;
    int bad;
};

static enum pod_code compile(const char *name, enum pod_program_format format,
                             uint32_t replicas,
                             struct pod_device_program **out_program,
                             struct pod_err *err)
{
    char path[PATH_ROOM];
    size_t size;
    char *text;
    enum pod_code code;

    snprintf(path, sizeof(path), "%.1000s/%.300s/%.300s.hlo.%s", programs_dir(),
             name, name, format == POD_FORMAT_HLO_TEXT ? "txt" : "pb");
    text = whole_file_read(path, &size);
    code = device->ops->compile(device, format, text, size, replicas,
                                out_program, err);
    free(text);
    return code;
}

// A program of the short list runs; any other is refused by name.
static bool try_program(const char *name, enum pod_program_format format,
                        const json_t *about)
{
    uint32_t replicas =
        (uint32_t)json_integer_value(json_object_get(about, "replicas"));
    struct pod_device_program *program;
    struct pod_err err = POD_ERR_NONE;
    enum pod_code code = compile(name, format, replicas, &program, &err);
    bool good;

    if (!json_is_true(json_object_get(about, "short_list"))) {
        if (code == POD_UNIMPLEMENTED && strstr(err.text, "reference") != NULL)
            return true;
        print_message("%s: %s\n", name, err.text);
        if (code == POD_OK)
            device->ops->program_free(device, program);
        return false;
    }
    if (code != POD_OK) {
        print_message("%s: line %d: %s\n", name, err.line, err.text);
        return false;
    }
    good = run_program(name, replicas, program, about);
    device->ops->program_free(device, program);
    return good;
}

static void try_all(enum pod_program_format format, struct tally *short_list,
                    struct tally *others)
{
    DIR *dir = opendir(programs_dir());
    struct dirent *entry;

    assert_non_null(dir);
    while ((entry = readdir(dir)) != NULL) {
        char path[PATH_ROOM];
        json_t *about;
        struct tally *tally;
        snprintf(path, sizeof(path), "%.1000s/%.300s/%.300s.json",
                 programs_dir(), entry->d_name, entry->d_name);
        about = json_load_file(path, 0, NULL);
        if (about == NULL)
            continue;
        tally = json_is_true(json_object_get(about, "short_list")) ? short_list
                                                                   : others;
        if (try_program(entry->d_name, format, about))
            tally->good++;
        else
            tally->bad++;
        json_decref(about);
    }
    closedir(dir);
}

static void check_all(enum pod_program_format format)
{
    struct tally short_list = {0, 0};
    struct tally others = {0, 0};

    try_all(format, &short_list, &others);
    assert_int_equal(short_list.bad, 0);
    assert_int_equal(short_list.good, 117);
    assert_int_equal(others.bad, 0);
    assert_int_equal(others.good, 33);
}

static void test_programs_from_text(void **state)
{
    (void)state;
    check_all(POD_FORMAT_HLO_TEXT);
}

static void test_programs_from_proto(void **state)
{
    (void)state;
    check_all(POD_FORMAT_HLO_PROTO);
}

// --------------------------------------------------------------- bad programs

// The text of a bad program: its file, or what the generator prints.
static char *bad_text(const json_t *about, size_t *out_size)
{
    const char *file = json_string_value(json_object_get(about, "file"));
    const char *name = json_string_value(json_object_get(about, "name"));
    char path[PATH_ROOM];
    char command[2 * PATH_ROOM];
    FILE *pipe;
    char *text;
    size_t room = 32 << 20;

    if (file != NULL) {
        snprintf(path, sizeof(path), "%.1000s/bad/%.300s", programs_dir(),
                 file);
        return whole_file_read(path, out_size);
    }
    snprintf(command, sizeof(command), "python3 '%s/bad/make_big.py' %s",
             programs_dir(), name);
    pipe = popen(command, "r");
    assert_non_null(pipe);
    text = malloc(room);
    assert_non_null(text);
    *out_size = fread(text, 1, room, pipe);
    assert_true(*out_size > 0 && *out_size < room);
    assert_int_equal(pclose(pipe), 0);
    return text;
}

static void check_bad(const char *path)
{
    json_t *about = json_load_file(path, 0, NULL);
    struct pod_device_program *program;
    struct pod_err err = POD_ERR_NONE;
    enum pod_program_format format;
    enum pod_code code;
    size_t size;
    char *text;

    assert_non_null(about);
    format = strcmp(json_string_value(json_object_get(about, "format")),
                    "hlo-text") == 0
                 ? POD_FORMAT_HLO_TEXT
                 : POD_FORMAT_HLO_PROTO;
    text = bad_text(about, &size);
    code = device->ops->compile(device, format, text, size, 1, &program, &err);
    if (code != POD_INVALID_ARGUMENT)
        fail_msg("%s: code %d: %s", path, (int)code, err.text);
    assert_int_equal(err.reason, POD_REASON_INVALID_PROGRAM);
    free(text);
    json_decref(about);
}

static void test_bad_programs(void **state)
{
    char path[PATH_ROOM];
    int count = 0;
    struct dirent *entry;
    DIR *dir;

    (void)state;
    snprintf(path, sizeof(path), "%.1000s/bad", programs_dir());
    dir = opendir(path);
    assert_non_null(dir);
    while ((entry = readdir(dir)) != NULL) {
        const char *end = strrchr(entry->d_name, '.');
        if (end == NULL || strcmp(end, ".json") != 0)
            continue;
        snprintf(path, sizeof(path), "%.1000s/bad/%.300s", programs_dir(),
                 entry->d_name);
        check_bad(path);
        count++;
    }
    closedir(dir);
    assert_int_equal(count, 15);
}

// The other formats are named when they are refused.
static void test_mlir_is_refused(void **state)
{
    struct pod_device_program *program;
    struct pod_err err = POD_ERR_NONE;

    (void)state;
    assert_int_equal(device->ops->compile(device, POD_FORMAT_MLIR_TEXT,
                                          "module {}", 9, 1, &program, &err),
                     POD_UNIMPLEMENTED);
    assert_non_null(strstr(err.text, "text/x-mlir"));
    assert_non_null(strstr(err.text, "reference"));
    assert_int_equal(device->ops->compile(device, POD_FORMAT_MLIR_BYTECODE,
                                          "ML\xefR", 4, 1, &program, &err),
                     POD_UNIMPLEMENTED);
    assert_non_null(strstr(err.text, "application/x-mlir"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_programs_from_text),
        cmocka_unit_test(test_programs_from_proto),
        cmocka_unit_test(test_bad_programs),
        cmocka_unit_test(test_mlir_is_refused),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
