plugins {
    id("com.android.application") version "8.7.3"
    id("org.jetbrains.kotlin.android") version "2.0.21"
}

// The model, and the folder of ncnn-YYYYMMDD-android.zip, unpacked.
val model = rootDir.resolve("../../fixtures/network/digits/model.onnx")
val ncnn = providers.gradleProperty("ncnn").orElse(rootDir.resolve("ncnn").path)

// The net is made by each build of which the model is new.
val assets = layout.buildDirectory.dir("net")
val convertModel = tasks.register<Exec>("convertModel") {
    inputs.file(model)
    outputs.dir(assets)
    val net = assets.get().asFile.resolve("digits")
    commandLine("onnx2ncnn", "--quiet", model.path, "$net.param", "$net.bin")
}

android {
    namespace = "org.example.digits"
    compileSdk = 35
    defaultConfig {
        applicationId = "org.example.digits"
        minSdk = 24
        targetSdk = 35
        ndk { abiFilters += listOf("arm64-v8a", "armeabi-v7a", "x86_64") }
        externalNativeBuild { cmake { arguments += "-Dncnn_ROOT=${ncnn.get()}" } }
        // Google Play asks for libraries that load on phones with pages of 16 KB.
        externalNativeBuild { cmake { arguments += "-DANDROID_SUPPORT_FLEXIBLE_PAGE_SIZES=ON" } }
    }
    externalNativeBuild { cmake { path = file("src/main/cpp/CMakeLists.txt") } }
    sourceSets["main"].assets.srcDir(assets)
    // A file that is not compressed is mapped, and its weights are not copied.
    androidResources { noCompress += listOf("param", "bin") }
    compileOptions {
        sourceCompatibility = JavaVersion.VERSION_17
        targetCompatibility = JavaVersion.VERSION_17
    }
    kotlinOptions { jvmTarget = "17" }
}

tasks.named("preBuild") { dependsOn(convertModel) }
