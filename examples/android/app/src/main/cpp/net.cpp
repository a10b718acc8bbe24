// The native half of Net.kt.

#include <jni.h>

#include <string>
#include <vector>

#include <net.h>

// A net, and the buffer that holds its weights.
struct Loaded
{
    ncnn::Net net;
    jobject weights;
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

extern "C" JNIEXPORT jlong JNICALL Java_org_example_digits_Net_load(JNIEnv* env, jclass, jstring param, jobject bin, jboolean half)
{
    Loaded* loaded = new Loaded;
    ncnn::Option& opt = loaded->net.opt;
    opt.use_fp16_packed = opt.use_fp16_storage = opt.use_fp16_arithmetic = half;
    const char* layers = env->GetStringUTFChars(param, nullptr);
    const unsigned char* weights = (const unsigned char*)env->GetDirectBufferAddress(bin);
    // The net reads its weights where they are.
    const bool is_loaded = loaded->net.load_param_mem(layers) == 0 && weights && loaded->net.load_model(weights) >= 0;
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

extern "C" JNIEXPORT void JNICALL Java_org_example_digits_Net_free(JNIEnv* env, jclass, jlong handle)
{
    Loaded* loaded = (Loaded*)handle;
    jobject weights = loaded->weights;
    delete loaded;
    env->DeleteGlobalRef(weights);
}

// The elements of the outputs; `sizes` is given theirs.
extern "C" JNIEXPORT jobjectArray JNICALL Java_org_example_digits_Net_run(
    JNIEnv* env, jclass, jlong handle, jobjectArray inputs, jobjectArray shapes, jobjectArray data, jobjectArray outputs, jobjectArray sizes)
{
    ncnn::Extractor extractor = ((Loaded*)handle)->net.create_extractor();
    for (jsize i = 0; i < env->GetArrayLength(inputs); i++)
    {
        jintArray shape = (jintArray)env->GetObjectArrayElement(shapes, i);
        jfloatArray elements = (jfloatArray)env->GetObjectArrayElement(data, i);
        std::vector<jint> list(env->GetArrayLength(shape));
        env->GetIntArrayRegion(shape, 0, list.size(), list.data());
        ncnn::Mat mat = make(list);
        // Channels begin at aligned addresses.
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
        const jsize plane = mat.w * mat.h * mat.d;
        jfloatArray elements = env->NewFloatArray(plane * mat.c);
        for (int c = 0; c < mat.c; c++)
            env->SetFloatArrayRegion(elements, c * plane, plane, mat.channel(c));
        const std::vector<jint> list = sizes_of(mat);
        jintArray shape = env->NewIntArray(list.size());
        env->SetIntArrayRegion(shape, 0, list.size(), list.data());
        env->SetObjectArrayElement(results, i, elements);
        env->SetObjectArrayElement(sizes, i, shape);
    }
    return results;
}
