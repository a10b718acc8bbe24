# Converts ONNX models when a target is built:
#
#     find_package(onnx2ncnn REQUIRED)
#     onnx2ncnn_add_model(app digits.onnx [EMBED] [OPTIONS --fp16 ...] [DEPENDS digits.data ...])
#
# Writes digits.ncnn.param and digits.ncnn.bin to the folder `app.ncnn` of the build, again if the model, its external
# data in DEPENDS, or the program changes. With EMBED the target can include "digits.ncnn.mem.h", whose arrays
# digits_ncnn_param_bin and digits_ncnn_bin have the same net.

find_program(ONNX2NCNN_EXECUTABLE onnx2ncnn HINTS "${CMAKE_CURRENT_LIST_DIR}/../../..")
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(onnx2ncnn REQUIRED_VARS ONNX2NCNN_EXECUTABLE)

function(onnx2ncnn_add_model target model)
    cmake_parse_arguments(PARSE_ARGV 2 arg "EMBED" "" "OPTIONS;DEPENDS")
    if(DEFINED arg_UNPARSED_ARGUMENTS)
        message(FATAL_ERROR "onnx2ncnn_add_model: unknown arguments ${arg_UNPARSED_ARGUMENTS}")
    endif()
    get_filename_component(model "${model}" ABSOLUTE)
    get_filename_component(name "${model}" NAME_WLE)
    set(folder "${CMAKE_CURRENT_BINARY_DIR}/${target}.ncnn")
    set(net "${folder}/${name}.ncnn")
    set(files "${net}.param" "${net}.bin")
    if(arg_EMBED)
        list(APPEND files "${net}.mem.h")
        list(APPEND arg_OPTIONS --mem-header "${net}.mem.h")
        target_include_directories(${target} PRIVATE "${folder}")
    endif()
    add_custom_command(
        OUTPUT ${files}
        COMMAND "${CMAKE_COMMAND}" -E make_directory "${folder}"
        COMMAND "${ONNX2NCNN_EXECUTABLE}" --quiet "${model}" "${net}.param" "${net}.bin" ${arg_OPTIONS}
        WORKING_DIRECTORY "${CMAKE_CURRENT_SOURCE_DIR}"
        DEPENDS "${model}" ${arg_DEPENDS} "${ONNX2NCNN_EXECUTABLE}"
        COMMENT "Converting ${name}.onnx"
        VERBATIM)
    target_sources(${target} PRIVATE ${files})
endfunction()
