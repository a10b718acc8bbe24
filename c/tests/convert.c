/* Converts a model from a file and from memory, compares the results with each other and with the model; then a model
   that is refused. */

#include "onnx2ncnn.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(condition) \
    do { \
        if (!(condition)) { \
            fprintf(stderr, "line %d: %s\n", __LINE__, #condition); \
            exit(1); \
        } \
    } while (0)

struct bytes {
    unsigned char* data;
    size_t size;
};

static bool append(void* context, const uint8_t* part, size_t size)
{
    struct bytes* bytes = context;
    bytes->data = realloc(bytes->data, bytes->size + size);
    memcpy(bytes->data + bytes->size, part, size);
    bytes->size += size;
    return true;
}

static bool end(void* context, const uint8_t* part, size_t size)
{
    (void)context, (void)part, (void)size;
    return false;
}

static struct bytes read_file(const char* path)
{
    struct bytes bytes = {0};
    unsigned char part[4096];
    FILE* file = fopen(path, "rb");
    CHECK(file);
    for (size_t size; (size = fread(part, 1, sizeof part, file));)
        append(&bytes, part, size);
    fclose(file);
    return bytes;
}

static void write_file(const char* path, struct bytes bytes)
{
    FILE* file = fopen(path, "wb");
    CHECK(file && fwrite(bytes.data, 1, bytes.size, file) == bytes.size && !fclose(file));
}

static bool equal(struct bytes a, struct bytes b)
{
    return a.size == b.size && memcmp(a.data, b.data, a.size) == 0;
}

/* usage: convert MODEL PARAM BIN */
int main(int argc, char** argv)
{
    CHECK(argc == 4);
    CHECK(strlen(onnx2ncnn_version()) >= 5);

    onnx2ncnn_conversion* file = onnx2ncnn_convert_file(argv[1], "{\"fp16\": true}");
    CHECK(onnx2ncnn_is_done(file));
    CHECK(onnx2ncnn_write(file, argv[2], argv[3]));
    CHECK(strstr(onnx2ncnn_report(file), "\"status\": \"converted\""));

    onnx2ncnn_verification found;
    CHECK(onnx2ncnn_verify(file, argv[2], argv[3], &found));
    CHECK(found.tested && !found.differs && !found.difference && found.error < 1e-2);
    CHECK(strstr(found.verdict, " windows, ") && strstr(found.verdict, "; not covered: 0"));
    CHECK(onnx2ncnn_verify(file, NULL, NULL, NULL));

    struct bytes model = read_file(argv[1]), bin = {0};
    onnx2ncnn_conversion* memory = onnx2ncnn_convert_memory(model.data, model.size, "{\"fp16\": true}");
    memset(model.data, 0, model.size);
    CHECK(onnx2ncnn_write_bin(memory, append, &bin));
    struct bytes param = {(unsigned char*)onnx2ncnn_param(memory), strlen(onnx2ncnn_param(memory))};
    CHECK(equal(param, read_file(argv[2])));
    CHECK(equal(bin, read_file(argv[3])));
    CHECK(!onnx2ncnn_write_bin(memory, end, NULL));
    CHECK(!onnx2ncnn_is_done(memory) && strstr(onnx2ncnn_message(memory), "ended the call"));

    /* A weight differs, then the net is no net, then a file is missing. */
    struct bytes changed = read_file(argv[3]);
    changed.data[changed.size - 1] ^= 0x40;
    write_file(argv[3], changed);
    size_t all = found.tested + found.proved;
    CHECK(!onnx2ncnn_verify(file, argv[2], argv[3], &found) && onnx2ncnn_is_done(file));
    CHECK(found.differs == 1 && found.tested + found.proved == all - 1);
    CHECK(strstr(found.verdict, "1 of ") && strstr(found.verdict, " differ") && strchr(found.difference, '"'));
    changed.size /= 2;
    write_file(argv[3], changed);
    CHECK(!onnx2ncnn_verify(file, argv[2], argv[3], &found) && !onnx2ncnn_is_done(file));
    CHECK(!found.verdict && !found.difference && !found.tested && strlen(onnx2ncnn_message(file)));
    CHECK(!onnx2ncnn_verify(file, argv[2], NULL, NULL) && strstr(onnx2ncnn_message(file), "NULL"));
    free(changed.data);

    onnx2ncnn_conversion* wrong = onnx2ncnn_convert_file(argv[1], "{\"fast\": true}");
    CHECK(!onnx2ncnn_is_done(wrong) && strstr(onnx2ncnn_message(wrong), "fast: unknown option"));
    onnx2ncnn_conversion* refused = onnx2ncnn_convert_memory(NULL, 0, NULL);
    CHECK(!onnx2ncnn_is_done(refused) && !onnx2ncnn_param(refused) && !onnx2ncnn_write(refused, argv[2], argv[3]));
    CHECK(!onnx2ncnn_verify(refused, NULL, NULL, &found) && !found.verdict);
    CHECK(strstr(onnx2ncnn_report(refused), "\"status\": \"refused\""));
    onnx2ncnn_conversion* absent = onnx2ncnn_convert_file(NULL, NULL);
    CHECK(!onnx2ncnn_is_done(absent) && strlen(onnx2ncnn_message(absent)));

    onnx2ncnn_free(file);
    onnx2ncnn_free(memory);
    onnx2ncnn_free(wrong);
    onnx2ncnn_free(refused);
    onnx2ncnn_free(absent);
    onnx2ncnn_free(NULL);
    free(model.data);
    free(bin.data);
    puts("done");
    return 0;
}
