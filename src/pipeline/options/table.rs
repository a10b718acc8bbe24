//! The table of options.

/// Calls a macro with each option: the documentation of its method of [`Converter`](crate::Converter), the
/// form of this method, its name, its type, and what other interfaces know of it.
///
/// The command, the Python package and `batch` read the table; so an option is written here, where it is
/// used, and in the documents. The help has the same order. The method of `custom` is written by hand.
macro_rules! for_each_option {
    ($define:ident) => {
        $define! {
            /// The shapes of inputs, instead of the declared ones.
            custom input_shapes: Vec<(String, Vec<Dim>)> = OptionInfo {
                word: Some("input-shape"),
                value: "NAME:1,3,H,W",
                ..source("The shape of an input: numbers, or names for free sizes [NAME: the only input]")
            };

            /// The inputs that are constants.
            custom set: Vec<(String, Array)> =
                source("Make an input a constant: a number, the name of a free size, a list of them, or an array in \
                    a file, @FILE.npy")
                    .takes("NAME=VALUE");

            /// Sets factors of pixels, one for each channel or one for all: the net reads pixels, and the
            /// model reads `(pixel * scale - mean) * norm`. This applies to each input that is a picture:
            /// floats of four axes with 1, 3 or 4 channels. The channels are in the model's order.
            numbers scale: Vec<f64> =
                pixels("Factors of pixels, which are the elements of the input then\n\n\
                    The model reads (pixel * scale - mean) * norm. Numbers or quotients such as 1/255, one for each channel of the model or one for all. They become part \
                    of the first layer, but a mean before a convolution with padding stays a separate layer.")
                    .takes("A,B,C");

            /// Sets what is subtracted from pixels after [`scale`](crate::Converter::scale).
            numbers mean: Vec<f64> = pixels("What is subtracted from pixels after --scale").takes("A,B,C").rare();

            /// Sets factors of pixels after [`mean`](crate::Converter::mean).
            numbers norm: Vec<f64> = pixels("The factors of pixels after --mean, such as 1/0.229").takes("A,B,C").rare();

            /// Takes the channels of pictures in the reverse order: BGR where the model reads RGB, or RGB
            /// where it reads BGR.
            flag bgr: bool =
                pixels("Take channels in the reverse order: BGR where the model reads RGB").rare();

            /// Takes pictures as planes of channels, as ncnn makes them of pixels, where the last axis of the
            /// model's input is the channels.
            flag chw: bool =
                pixels("Take pictures as planes of channels, as ncnn makes them of pixels, where the model reads channels last")
                    .rare();

            /// Makes these values the inputs, by cutting the graph. The default is the inputs of the model. A
            /// value of which the model states no type has one after its name, such as `ids:int64[1,S]`.
            names inputs: Vec<String> =
                source("Keep only the nodes after these values, which become the inputs\n\n\
                    A value of which the model states no type has one after its name, such as ids:int64[1,S].")
                    .takes("A,B");

            /// Makes these values the outputs, by cutting the graph. The default is the outputs of the model.
            names outputs: Vec<String> =
                source("Keep only the nodes before these values, which become the outputs").takes("A,B");

            /// Converts the largest part of a model that is refused as a whole: the part with the most
            /// weights of those around the nodes that cannot be converted. A warning names its inputs and
            /// outputs.
            flag auto_cut: bool = OptionInfo {
                heading: "Model",
                ..net("Convert the largest part of a refused model\n\n\
                    Such a part has the most weights of those before or after the nodes that cannot be converted. Its \
                    inputs and outputs are printed.")
            };

            /// Makes the results of operators of random numbers inputs, which are refused otherwise. The user
            /// then provides the numbers, in the distribution of the operator.
            flag random_as_input: bool = source("Make random numbers inputs").rare();

            /// Sets the folder of external data; the default is that of the model.
            path data_dir: Option<PathBuf> =
                source("The folder of external data [default: the folder of the model]").takes("DIR").rare();

            /// Sets the maximum bytes of a model file; the default is 16 GiB. Files of external data do not
            /// count.
            bytes max_size: Option<u64> =
                source("Refuse a larger model file, such as 8GB").takes("SIZE").rare();

            /// Skips a pass, one of those that [`passes`](crate::passes) lists.
            name skip: BTreeSet<String> =
                source("Skip these passes, see --list-passes").takes("NAME").rare();

            /// Converts inputs of float64 to float32, the widest float of ncnn. By default they are
            /// refused: a float64 may be out of the range of float32.
            flag double_as_float: bool =
                model("Convert inputs of float64 to float32, the widest float of ncnn");

            /// Writes weights in float16. Biases and normalizations stay in float32, as do weights that would
            /// lose range or precision. Constants become float16 if that is exact.
            flag fp16: bool = net("Write weights in float16");

            /// Sets the storage of the constant matrices of products and tables.
            ///
            /// Weights in blocks have the layout of ncnn 20261020. A net with them loads in no older release,
            /// and another one may read them incorrectly.
            value weights: Weights = net("The weights of matrix products and tables\n\n\
                Floats; the integers in blocks of the model, which stay so with `keep`; or floats rounded to such \
                integers. Other than floats they require ncnn 20261020.")
                .takes("TYPE");

            /// Lets all layers compute in float32 on processors that compute in float16, which takes more
            /// time. Blobs are stored in float16.
            flag precise: bool =
                net("Let all layers compute in float32 on processors that compute in float16");

            /// Lets 3 by 3 convolutions of few channels avoid the transform of Winograd with tiles of 8 by 8,
            /// which loses most in float16. They take more time, on every processor. It has no effect on nets
            /// with [`precise`](crate::Converter::precise).
            flag careful: bool = OptionInfo {
                excludes: Some("precise"),
                ..net("Avoid the least exact transform of convolutions on processors that compute in float16")
            };

            /// Adds operators that layers of the user compute. They are written as declared, and not checked.
            layers custom_layers: Vec<CustomLayer> =
                net("Write the operators of a file as layers of your own, as it declares them")
                    .takes("FILE.toml")
                    .rare();

            /// Keeps the results of nodes in float32 on processors that compute in float16, which has no
            /// numbers above 65504. The layers that do the work of such a node compute in float32, and so do
            /// the layers that read its results. A name is the name of a node, of the output of a node, or of
            /// an input. All nodes with a name are kept.
            ///
            /// A name that the model does not have is an error of the kind
            /// [`Usage`](crate::error::ErrorKind::Usage). A node of which no layer does the work, such as a
            /// folded one, is a warning. [`Conversion::half_blobs`](crate::Conversion::half_blobs) names the
            /// others.
            names float32: Vec<String> =
                net("Keep the results of these nodes in float32 on processors that compute in float16: names of \
                    nodes or of their outputs, or of inputs; `verify --magnitudes` prints them")
                    .takes("A,B")
                    .rare();

            /// Lets the runtime keep the caches of a decoder, in a private layout: attention to a cache
            /// becomes one layer, for ncnn 20260113 or later. See [`Port::cache`](crate::Port::cache).
            flag kv_cache: bool =
                net("Let the runtime keep the caches of a decoder (ncnn 20260113 or later)");

            /// Whether a quantized network is computed by int8 layers.
            custom int8: bool = OptionInfo {
                excludes: Some("dequantize"),
                ..net("Compute a quantized model with int8 layers, by the scales of the model")
            };

            /// Whether the rounding of a quantized network is removed.
            custom dequantize: bool = net("Remove the rounding of a quantized model, and compute in float32");

            /// Sets the oldest release of ncnn that must load the result, by its date, such as 20260526.
            /// Features of newer releases are then not used.
            release ncnn_version: Option<u32> =
                net("The oldest release of ncnn that must load the result, by its date\n\n\
                    Newer ones have more layers. The default is 20240410, or 20250428, 20250916 or 20260113 if free \
                    sizes require it.")
                    .takes("YYYYMMDD");

            /// Refuses models of which the net computes the right result only under an assumption: see
            /// [`Conversion::assumptions`](crate::Conversion::assumptions). Finite inputs, which nearly every
            /// net expects, are accepted.
            flag strict: bool = net("Refuse a model if its net relies on assumed facts of values\n\n\
                A net relies on two kinds of facts that cannot be proved. A run prints as `assumed` what may be wrong \
                for some inputs of a model, such as integers within 2^24; --strict refuses these. It prints as \
                `expected` that inputs are finite, which holds for nearly every use, and which --strict accepts.");

            /// The new names of the blobs of values.
            custom rename: Vec<(String, String)> =
                net("Rename the blob of an input, an output, or an intermediate value").takes("OLD=NEW");

            /// Names the blobs of inputs `in0`, `in1` and so on, and those of outputs `out0`, `out1`, in the
            /// order of the model, as pnnx does. Names that [`Converter::rename`](crate::Converter::rename)
            /// gives stay.
            flag numbered: bool = net("Name the inputs in0, in1, ... and the outputs out0, ..., as pnnx does").rare();

            /// Checks the invariants of the graph after every pass, for developers of this library.
            flag check: bool = model("Check the graph after every pass");

            /// Writes the simplified graph as ONNX; for [`Quantization::Float`](crate::Quantization::Float),
            /// the graph without rounding.
            path emit_onnx: Option<PathBuf> = file(
                FileInfo::new("the ONNX file", "onnx", "The simplified model"),
                "Also write the simplified model as ONNX, with --dequantize the float network",
            );

            /// Writes the table from which `ncnn2int8` makes int8 layers, of a quantized network in float32.
            path table: Option<PathBuf> = OptionInfo {
                requires: Some("dequantize"),
                is_rare: true,
                ..file(
                    FileInfo::new("the table of scales", "table", "The scales of a quantized model"),
                    "Also write the table of a quantized model's scales that ncnn2int8 reads",
                )
            };

            /// Writes the binary form of the `.param` file, with indices instead of names.
            path param_bin: Option<PathBuf> = file(
                FileInfo::new("the binary .param file", "param.bin", "The binary form of the .param file"),
                "Also write the .param file in its binary form, which has indices instead of names",
            )
            .rare();

            /// Writes a C header with the indices of layers and blobs by their names.
            path id_header: Option<PathBuf> = file(
                FileInfo::new("the header of indices", "id.h", "A C header of indices"),
                "Also write a C header with these indices",
            )
            .rare();

            /// Writes a C header with the bytes of the binary `.param` file and of the `.bin` file as arrays.
            path mem_header: Option<PathBuf> = file(
                FileInfo::new("the header of bytes", "mem.h", "A C header of bytes"),
                "Also write a C header with the bytes of the binary .param file and the .bin file",
            )
            .rare();

            /// Writes a program that runs the net, in the language of the ending of its name; see
            /// [`Conversion::program`](crate::Conversion::program).
            path example: Option<PathBuf> = file(
                FileInfo::new("the program", "py", "A program that runs the net"),
                "Also write a program that runs the net, in Python, C++ or Kotlin",
            )
            .takes("FILE.py|.cpp|.kt");

            /// Writes what the model says about its use as YAML, as ultralytics reads it.
            path metadata: Option<PathBuf> = file(
                FileInfo::new("the metadata", "metadata.yaml", "What the model says about its use"),
                "Also write what the model says about its use, such as names of classes, as YAML",
            )
            .takes("FILE.yaml")
            .rare();

            /// Writes a report as JSON; see [`report`](crate::report).
            path report: Option<PathBuf> = file(
                FileInfo::report("the report", "report.json", "The report"),
                "Write a report as JSON, also if the model is refused",
            )
            .takes("FILE.json");

            /// Writes the report as an HTML page with a drawing of the network.
            path html: Option<PathBuf> = file(
                FileInfo::report("the page", "html", "The report as a page"),
                "Write a report as an HTML page with a drawing of the network, also if the model is refused",
            )
            .takes("FILE.html");

            /// Keeps the graph of [`Converter::emit_onnx`](crate::Converter::emit_onnx) for
            /// [`Conversion::write_onnx_to`](crate::Conversion::write_onnx_to).
            flag keep_onnx: bool = memory("Keep the simplified model; with `dequantize` the model in float32");

            /// Inspects refused models too, as a request for a report does.
            flag explain: bool = memory("Inspect refused models too");
        }
    };
}

pub(crate) use for_each_option;
