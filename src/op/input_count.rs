//! The largest number of inputs of each operator, from the schemas of ONNX and of onnxruntime.

use std::sync::LazyLock;

use hashbrown::HashMap;

use super::Op;

/// The largest number of inputs from each version on.
type Counts = &'static [(i64, usize)];

/// The operators of a domain that share their numbers. An operator that takes any number is absent.
const COUNTS: &[(&str, Counts, &str)] = &[
    ("", &[(1, 0)], "Constant RandomNormal RandomUniform SequenceEmpty"),
    (
        "",
        &[(1, 1)],
        "Abs Acos Acosh ArgMax ArgMin Asin Asinh Atan Atanh AveragePool Bernoulli BitCast BitwiseNot \
      BlackmanWindow Cast Ceil Celu ConcatFromSequence ConstantOfShape Cos Cosh DepthToSpace Det \
      DynamicQuantizeLinear Elu Erf Exp EyeLike Flatten Floor Gelu GlobalAveragePool GlobalLpPool \
      GlobalMaxPool HammingWindow HannWindow HardSigmoid HardSwish Hardmax Identity If ImageDecoder IsInf \
      IsNaN LRN LeakyRelu Log LogSoftmax LpNormalization LpPool MaxPool MeanVarianceNormalization Mish \
      Multinomial Neg NonZero Not Optional OptionalGetElement OptionalHasElement RandomNormalLike \
      RandomUniformLike Reciprocal RegexFullMatch Relu Round Selu SequenceLength Shape Shrink Sigmoid Sign \
      Sin Sinh Size Softmax Softplus Softsign SpaceToDepth Sqrt StringNormalizer StringSplit Swish Tan \
      Tanh TfIdfVectorizer ThresholdedRelu Transpose Unique",
    ),
    ("", &[(1, 1), (5, 2)], "Reshape"),
    ("", &[(1, 1), (9, 2)], "Upsample"),
    ("", &[(1, 1), (10, 2)], "TopK"),
    ("", &[(1, 1), (10, 5)], "Slice"),
    ("", &[(1, 1), (11, 3)], "Clip"),
    ("", &[(1, 1), (11, 3), (18, 4)], "Pad"),
    ("", &[(1, 1), (12, 3)], "Dropout"),
    ("", &[(1, 1), (13, 2)], "ReduceSum Squeeze Unsqueeze"),
    (
        "",
        &[(1, 1), (18, 2)],
        "ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd \
      ReduceSumSquare",
    ),
    (
        "",
        &[(1, 2)],
        "Add AffineGrid And BitShift BitwiseAnd BitwiseOr BitwiseXor CastLike CenterCropPad Compress CumProd \
      CumSum Div Equal Expand Gather GatherElements GatherND Greater GreaterOrEqual GridSample Less \
      LessOrEqual MatMul MaxRoiPool Mod Mul Or PRelu Pow RMSNormalization ReverseSequence SequenceAt \
      SequenceErase SplitToSequence StringConcat Sub SwiGLU Trilu Xor",
    ),
    ("", &[(1, 2), (2, 1), (13, 2)], "Split"),
    (
        "",
        &[(1, 3)],
        "Col2Im Conv ConvTranspose DequantizeLinear Gemm GroupNormalization InstanceNormalization \
      LayerNormalization MaxUnpool NegativeLogLikelihoodLoss OneHot QuantizeLinear Range RoiAlign Scatter \
      ScatterElements ScatterND SequenceInsert SoftmaxCrossEntropyLoss TensorScatter Where",
    ),
    ("", &[(1, 3), (6, 2)], "Tile"),
    ("", &[(1, 4)], "CausalConvWithState ConvInteger MatMulInteger RotaryEmbedding STFT"),
    ("", &[(1, 5)], "BatchNormalization DeformConv MelWeightMatrix NonMaxSuppression"),
    ("", &[(1, 6)], "GRU LinearAttention RNN"),
    ("", &[(1, 8)], "LSTM QLinearMatMul"),
    ("", &[(1, 9)], "QLinearConv"),
    ("", &[(10, 2), (11, 4)], "Resize"),
    ("", &[(17, 2), (20, 3)], "DFT"),
    ("", &[(23, 6), (24, 7)], "Attention"),
    (
        "ai.onnx.ml",
        &[(1, 1)],
        "Binarizer CastMap CategoryMapper DictVectorizer Imputer LabelEncoder LinearClassifier \
      LinearRegressor Normalizer OneHotEncoder SVMClassifier SVMRegressor Scaler TreeEnsemble \
      TreeEnsembleClassifier TreeEnsembleRegressor ZipMap",
    ),
    ("ai.onnx.ml", &[(1, 2)], "ArrayFeatureExtractor"),
    ("ai.onnx.preview", &[(1, 3)], "FlexAttention"),
    ("com.microsoft", &[(1, 1)], "Gelu QuickGelu"),
    ("com.microsoft", &[(1, 2)], "BiasGelu FastGelu FusedMatMul GridSample Trilu"),
    ("com.microsoft", &[(1, 3)], "DequantizeLinear FusedGemm QuantizeLinear"),
    (
        "com.microsoft",
        &[(1, 4)],
        "FusedConv GatherBlockQuantized RotaryEmbedding SkipSimplifiedLayerNormalization",
    ),
    (
        "com.microsoft",
        &[(1, 5)],
        "DynamicQuantizeMatMul QLinearAveragePool QLinearGlobalAveragePool QLinearLeakyRelu QLinearSigmoid \
      QLinearSoftmax SkipLayerNormalization",
    ),
    ("com.microsoft", &[(1, 6)], "MatMulNBits"),
    ("com.microsoft", &[(1, 7)], "Attention MatMulIntegerToFloat"),
    ("com.microsoft", &[(1, 8)], "MoE QLinearAdd QLinearMul"),
    ("com.microsoft", &[(1, 9)], "EmbedLayerNormalization QAttention QGemm QLinearWhere"),
    ("com.microsoft", &[(1, 10)], "MultiHeadAttention"),
    ("com.microsoft", &[(1, 11)], "SparseAttention"),
    ("com.microsoft", &[(1, 12)], "DynamicQuantizeLSTM"),
    ("com.microsoft", &[(1, 16)], "GroupQueryAttention"),
];

static BY_NAME: LazyLock<HashMap<(&str, &str), Counts>> = LazyLock::new(|| {
    let named = |&(domain, counts, names): &(&'static str, Counts, &'static str)| {
        names.split_ascii_whitespace().map(move |name| ((domain, name), counts))
    };
    COUNTS.iter().flat_map(named).collect()
});

/// Returns the largest number of inputs of an operator from each version on; empty if it takes any number.
pub(crate) fn input_counts(op: &Op) -> Counts {
    BY_NAME.get(&(op.domain, op.name)).copied().unwrap_or_default()
}

/// Returns the largest number of inputs of an operator in version `opset` of its operator set.
pub(super) fn most_inputs(op: &Op, opset: i64) -> usize {
    let counts = input_counts(op).iter().rev();
    counts.copied().find(|(since, _)| *since <= opset).map_or(usize::MAX, |(_, most)| most)
}
