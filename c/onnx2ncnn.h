/*
 The C interface of onnx2ncnn: converts ONNX models to the files that ncnn loads.

 Strings end with a zero; those that a function returns belong to their conversion. A conversion is used by one thread at
 a time, and not after it was freed; different conversions are independent. Options are a JSON object with the names of
 the library, as in {"fp16": true, "outputs": ["boxes"], "input_shapes": {"x": [1, 3, "H", "W"]}}.
 */

#ifndef ONNX2NCNN_H
#define ONNX2NCNN_H

/* Made of src/lib.rs; `cargo xtask header` writes it. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 A converted or refused model.
 */
typedef struct onnx2ncnn_conversion onnx2ncnn_conversion;

/*
 Receives the next bytes of a file, with the context of the call. False ends the call.
 */
typedef bool (*onnx2ncnn_receive)(void *context, const uint8_t *bytes, size_t size);

/*
 A comparison of a net with its model: the numbers of windows, which are parts between blobs, of all sizes
 that were tried.
 */
typedef struct {
  /*
   The windows whose sides move each element to the same place.
   */
  size_t proved;
  /*
   The others whose sides are equal within the rounding of float32.
   */
  size_t tested;
  /*
   The windows of which one side cannot be computed.
   */
  size_t not_covered;
  /*
   The windows that differ.
   */
  size_t differs;
  /*
   The largest error of windows that do not differ, relative to the largest magnitude of the value.
   */
  double error;
  /*
   The verdict in one line; NULL if nothing was compared. It is valid until the next comparison.
   */
  const char *verdict;
  /*
   The value of the first window that differs, and what differs; NULL if none does. It is valid as long.
   */
  const char *difference;
} onnx2ncnn_verification;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/*
 Returns the version of the library.
 */
const char *onnx2ncnn_version(void);

/*
 Converts a model file. `options` is a JSON object, or NULL.

 The result is freed with `onnx2ncnn_free`, also if the model is refused.
 */
onnx2ncnn_conversion *onnx2ncnn_convert_file(const char *model, const char *options);

/*
 Converts a model in memory, of which a copy is kept until the result is freed.

 `options` is a JSON object, or NULL. The result is freed with `onnx2ncnn_free`, also if the model is refused.
 */
onnx2ncnn_conversion *onnx2ncnn_convert_memory(const uint8_t *model,
                                               size_t size,
                                               const char *options);

/*
 Returns whether the model was converted, and every later call of this conversion did what it was asked.
 */
bool onnx2ncnn_is_done(const onnx2ncnn_conversion *conversion);

/*
 Returns the errors, or the warnings of a converted model, a line each. What is assumed of the inputs is in the report.
 */
const char *onnx2ncnn_message(const onnx2ncnn_conversion *conversion);

/*
 Returns the report as JSON; NULL after an error.
 */
const char *onnx2ncnn_report(onnx2ncnn_conversion *conversion);

/*
 Returns the text of the `.param` file; NULL if the model was refused.
 */
const char *onnx2ncnn_param(onnx2ncnn_conversion *conversion);

/*
 Passes the bytes of the `.bin` file to a function, in parts, and returns whether all were received.
 */
bool onnx2ncnn_write_bin(onnx2ncnn_conversion *conversion,
                         onnx2ncnn_receive receive,
                         void *context);

/*
 Writes the files of the net, and those that the options name. Returns whether all were written; after an error,
 none is.
 */
bool onnx2ncnn_write(onnx2ncnn_conversion *conversion,
                     const char *param,
                     const char *bin);

/*
 Compares the files of a net with the model, without a runtime: each window is computed from both.

 `param` and `bin` are the paths of the files; if both are NULL, the converted net is compared. Returns
 whether they were compared and no window differs. `result` may be NULL; it has no verdict after an error.
 */
bool onnx2ncnn_verify(onnx2ncnn_conversion *conversion,
                      const char *param,
                      const char *bin,
                      onnx2ncnn_verification *result);

/*
 Frees a conversion and its strings. NULL is ignored.
 */
void onnx2ncnn_free(onnx2ncnn_conversion *conversion);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* ONNX2NCNN_H */
