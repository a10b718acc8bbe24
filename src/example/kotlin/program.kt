// Runs {{model}} in ncnn, in an app for Android or in any program on Java.
//
{{ports}}
//
// Needs NcnnNet.kt and ncnn_net.cpp, which stand beside it. In an app that has the files of the net among its assets, not compressed:
//
//     val param = assets.open({{param_asset}}).bufferedReader().use { it.readText() }
//     val bin = assets.openFd({{bin_asset}}).use {
//         FileInputStream(it.fileDescriptor).channel.map(FileChannel.MapMode.READ_ONLY, it.startOffset, it.declaredLength)
//     }
//     {{class}}(NcnnNet(param, bin)).use { println(it.{{usage}}) }
//
// Written by {{generator}} for this model. It is yours to change.

package onnx2ncnn

import java.io.Closeable
{{imports}}
/** {{about}} */
class {{class}}(private val net: NcnnNet) : Closeable by net {
{{main}}
{{functions}}
    companion object {
{{constants}}
    }
}
