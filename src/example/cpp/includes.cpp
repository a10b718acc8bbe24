
// Pictures are read by ncnn itself, or by OpenCV where ncnn was built without its reader.
#if NCNN_SIMPLEOCV
#include <ncnn/simpleocv.h>
#else
#include <opencv2/imgcodecs.hpp>
#endif
