// The native half of NcnnNet.kt, for any net.

#include <jni.h>

#include <map>
#include <string>
#include <vector>

#include <net.h>

// A net, the buffer that holds its weights, and the states of the last call by the names of their inputs.
struct Loaded
{
    ncnn::Net net;
    jobject weights;
    std::map<std::string, ncnn::Mat> states;
};

static void fail(JNIEnv* env, const std::string& reason)
{
    env->ThrowNew(env->FindClass("java/lang/IllegalArgumentException"), reason.c_str());
}

static std::string text(JNIEnv* env, jobjectArray list, jsize at)
{
    jstring item = (jstring)env->GetObjectArrayElement(list, at);
    const char* bytes = env->GetStringUTFChars(item, nullptr);
    std::string copy = bytes;
    env->ReleaseStringUTFChars(item, bytes);
    env->DeleteLocalRef(item);
    return copy;
}

// A Mat of sizes, the outermost first.
static ncnn::Mat make(const std::vector<jint>& sizes)
{
    switch (sizes.size())
    {
    case 1: return ncnn::Mat(sizes[0]);
    case 2: return ncnn::Mat(sizes[1], sizes[0]);
    case 3: return ncnn::Mat(sizes[2], sizes[1], sizes[0]);
    case 4: return ncnn::Mat(sizes[3], sizes[2], sizes[1], sizes[0]);
    default: return ncnn::Mat();
    }
}

static std::vector<jint> sizes_of(const ncnn::Mat& mat)
{
    switch (mat.dims)
    {
    case 1: return {mat.w};
    case 2: return {mat.h, mat.w};
    case 3: return {mat.c, mat.h, mat.w};
    default: return {mat.c, mat.d, mat.h, mat.w};
    }
}

// The elements in order: channels begin at aligned addresses.
static jfloatArray elements_of(JNIEnv* env, const ncnn::Mat& mat)
{
    const jsize plane = mat.w * mat.h * mat.d;
    jfloatArray elements = env->NewFloatArray(plane * mat.c);
    for (int c = 0; c < mat.c; c++)
        env->SetFloatArrayRegion(elements, c * plane, plane, mat.channel(c));
    return elements;
}

extern "C" JNIEXPORT jlong JNICALL Java_onnx2ncnn_NcnnNet_load(JNIEnv* env, jclass, jstring param, jobject bin, jboolean half, jint threads)
{
    Loaded* loaded = new Loaded;
    ncnn::Option& opt = loaded->net.opt;
    opt.use_fp16_packed = opt.use_fp16_storage = opt.use_fp16_arithmetic = half;
    if (threads > 0)
        opt.num_threads = threads;
    const char* layers = env->GetStringUTFChars(param, nullptr);
    const unsigned char* weights = (const unsigned char*)env->GetDirectBufferAddress(bin);
    // The net reads its weights where they are. An empty buffer has no address, and is that of a net without weights.
    const bool is_buffer = weights || env->GetDirectBufferCapacity(bin) == 0;
    const bool is_loaded = is_buffer && loaded->net.load_param_mem(layers) == 0 && loaded->net.load_model(weights) >= 0;
    env->ReleaseStringUTFChars(param, layers);
    if (!is_loaded)
    {
        delete loaded;
        fail(env, "the net does not load");
        return 0;
    }
    loaded->weights = env->NewGlobalRef(bin);
    return (jlong)loaded;
}

extern "C" JNIEXPORT void JNICALL Java_onnx2ncnn_NcnnNet_free(JNIEnv* env, jclass, jlong handle)
{
    Loaded* loaded = (Loaded*)handle;
    jobject weights = loaded->weights;
    delete loaded;
    env->DeleteGlobalRef(weights);
}

extern "C" JNIEXPORT void JNICALL Java_onnx2ncnn_NcnnNet_forget(JNIEnv*, jclass, jlong handle)
{
    ((Loaded*)handle)->states.clear();
}

// The elements of the outputs; `sizes` is given theirs. Each state is an input, and the output that continues it: `caches` stay in the
// layout of the runtime.
extern "C" JNIEXPORT jobjectArray JNICALL Java_onnx2ncnn_NcnnNet_run(
    JNIEnv* env, jclass, jlong handle, jobjectArray inputs, jobjectArray shapes, jobjectArray data, jobjectArray outputs, jobjectArray sizes,
    jobjectArray states, jobjectArray continued, jbooleanArray caches)
{
    Loaded& loaded = *(Loaded*)handle;
    ncnn::Extractor extractor = loaded.net.create_extractor();
    for (jsize i = 0; i < env->GetArrayLength(inputs); i++)
    {
        jintArray shape = (jintArray)env->GetObjectArrayElement(shapes, i);
        jfloatArray elements = (jfloatArray)env->GetObjectArrayElement(data, i);
        std::vector<jint> list(env->GetArrayLength(shape));
        env->GetIntArrayRegion(shape, 0, list.size(), list.data());
        ncnn::Mat mat = make(list);
        const jsize plane = mat.w * mat.h * mat.d;
        for (int c = 0; c < mat.c; c++)
            env->GetFloatArrayRegion(elements, c * plane, plane, mat.channel(c));
        const std::string name = text(env, inputs, i);
        if (extractor.input(name.c_str(), mat) != 0)
        {
            fail(env, "the net has no input " + name);
            return nullptr;
        }
    }
    for (const auto& state : loaded.states)
        extractor.input(state.first.c_str(), state.second);
    jobjectArray results = env->NewObjectArray(env->GetArrayLength(outputs), env->FindClass("[F"), nullptr);
    for (jsize i = 0; i < env->GetArrayLength(outputs); i++)
    {
        const std::string name = text(env, outputs, i);
        ncnn::Mat mat;
        if (extractor.extract(name.c_str(), mat) != 0)
        {
            fail(env, name + " cannot be computed: an input is missing, or has another shape");
            return nullptr;
        }
        const std::vector<jint> list = sizes_of(mat);
        jintArray shape = env->NewIntArray(list.size());
        env->SetIntArrayRegion(shape, 0, list.size(), list.data());
        env->SetObjectArrayElement(results, i, elements_of(env, mat));
        env->SetObjectArrayElement(sizes, i, shape);
    }
    std::map<std::string, ncnn::Mat> next;
    const jsize count = env->GetArrayLength(states);
    std::vector<jboolean> are_caches(count);
    env->GetBooleanArrayRegion(caches, 0, count, are_caches.data());
    for (jsize i = 0; i < count; i++)
    {
        const std::string name = text(env, continued, i);
        if (extractor.extract(name.c_str(), next[text(env, states, i)], are_caches[i] ? 1 : 0) != 0)
        {
            fail(env, name + " cannot be computed: an input is missing, or has another shape");
            return nullptr;
        }
    }
    loaded.states.swap(next);
    return results;
}

// Planes of pixels in another size. An integer 0xAARRGGBB is blue, green, red and alpha in memory.
extern "C" JNIEXPORT jfloatArray JNICALL Java_onnx2ncnn_NcnnNet_scale(
    JNIEnv* env, jclass, jintArray pixels, jint width, jint height, jint to_width, jint to_height, jint order)
{
    static const int types[] = {ncnn::Mat::PIXEL_BGRA2RGB, ncnn::Mat::PIXEL_BGRA2BGR, ncnn::Mat::PIXEL_BGRA2GRAY};
    jint* bytes = env->GetIntArrayElements(pixels, nullptr);
    const ncnn::Mat mat = ncnn::Mat::from_pixels_resize((const unsigned char*)bytes, types[order], width, height, to_width, to_height);
    env->ReleaseIntArrayElements(pixels, bytes, JNI_ABORT);
    return elements_of(env, mat);
}
