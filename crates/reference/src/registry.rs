//! The table of operators: name, domain, the opsets it exists in, and the function that evaluates it.

use crate::call::Call;
use crate::error::EvalError;
use crate::ops::ml::{features, labels, linear, maps, svm, trees};
use crate::ops::{
    arithmetic, attention, boxes, cast, compare, contract, control, conv, create, einsum, fourier, gather_scatter,
    linear_attention, linear_quantize, loss, microsoft, movement, norm, pad, pool, quantized, recurrent, reduce,
    resize, roi, sample, scan, select_rows, slice, softmax, sort, training, unary,
};
use crate::ops::{image, random, strings, values};
use infc_tensor::Tensor;

/// One entry of the table.
#[derive(Clone, Copy, Debug)]
pub struct Operator {
    /// The operator's name: `Conv`.
    pub name: &'static str,
    /// Its domain, empty for ONNX's own.
    pub domain: &'static str,
    /// The first opset that has it.
    pub since: i64,
    /// The last opset that has it; `i64::MAX` if it is still there.
    pub until: i64,
    run: fn(&Call<'_>) -> Result<Vec<Tensor>, EvalError>,
    /// Whether inputs may be sequences and optionals.
    pub takes_values: bool,
}

impl Operator {
    pub(crate) fn evaluate(&self, call: &Call<'_>) -> Result<Vec<Tensor>, EvalError> {
        (self.run)(call)
    }

    /// This entry for an operator whose inputs may be sequences and optionals.
    const fn on_values(mut self) -> Self {
        self.takes_values = true;
        self
    }

    /// This entry for an operator that `opset` was the last to have.
    const fn until(mut self, opset: i64) -> Self {
        self.until = opset;
        self
    }
}

const fn op(name: &'static str, since: i64, run: fn(&Call<'_>) -> Result<Vec<Tensor>, EvalError>) -> Operator {
    Operator { name, domain: "", since, until: i64::MAX, run, takes_values: false }
}

/// An operator of ONNX Runtime's own domain.
const fn microsoft(name: &'static str, run: fn(&Call<'_>) -> Result<Vec<Tensor>, EvalError>) -> Operator {
    Operator { name, domain: "com.microsoft", since: 1, until: i64::MAX, run, takes_values: false }
}

/// An operator of ONNX's that is not settled yet.
const fn preview(name: &'static str, run: fn(&Call<'_>) -> Result<Vec<Tensor>, EvalError>) -> Operator {
    Operator { name, domain: "ai.onnx.preview", since: 1, until: i64::MAX, run, takes_values: false }
}

/// An optimiser's step.
const fn training(name: &'static str, run: fn(&Call<'_>) -> Result<Vec<Tensor>, EvalError>) -> Operator {
    Operator { name, domain: "ai.onnx.preview.training", since: 1, until: i64::MAX, run, takes_values: false }
}

/// An operator of the domain of classical models.
const fn ml(name: &'static str, run: fn(&Call<'_>) -> Result<Vec<Tensor>, EvalError>) -> Operator {
    Operator { name, domain: "ai.onnx.ml", since: 1, until: i64::MAX, run, takes_values: false }
}

/// Every operator there is a definition for.
pub const OPERATORS: &[Operator] = &[
    // Arithmetic.
    op("Add", 1, arithmetic::add),
    op("Sub", 1, arithmetic::sub),
    op("Mul", 1, arithmetic::mul),
    op("Div", 1, arithmetic::div),
    op("Mod", 10, arithmetic::modulo),
    op("Pow", 1, arithmetic::pow),
    op("Max", 1, arithmetic::max),
    op("Min", 1, arithmetic::min),
    op("Sum", 1, arithmetic::sum),
    op("Mean", 1, arithmetic::mean),
    op("BitShift", 11, arithmetic::bit_shift),
    op("BitwiseAnd", 18, arithmetic::bitwise_and),
    op("BitwiseOr", 18, arithmetic::bitwise_or),
    op("BitwiseXor", 18, arithmetic::bitwise_xor),
    op("PRelu", 1, arithmetic::prelu),
    // Functions of one element.
    op("Sqrt", 1, unary::sqrt),
    op("Exp", 1, unary::exp),
    op("Log", 1, unary::log),
    op("Erf", 9, unary::erf_),
    op("Tanh", 1, unary::tanh),
    op("Sigmoid", 1, unary::sigmoid),
    op("Relu", 1, unary::relu),
    op("LeakyRelu", 1, unary::leaky_relu),
    op("HardSigmoid", 1, unary::hard_sigmoid),
    op("HardSwish", 14, unary::hard_swish),
    op("Elu", 1, unary::elu),
    op("Celu", 12, unary::celu),
    op("Selu", 1, unary::selu),
    op("Softplus", 1, unary::softplus),
    op("Softsign", 1, unary::softsign),
    op("ThresholdedRelu", 10, unary::thresholded_relu),
    op("Mish", 18, unary::mish),
    op("Swish", 24, unary::swish),
    op("SwiGLU", 28, unary::swiglu),
    op("Gelu", 20, unary::gelu),
    op("Shrink", 9, unary::shrink),
    op("Neg", 1, unary::neg),
    op("Abs", 1, unary::abs),
    op("Sign", 9, unary::sign),
    op("Reciprocal", 1, unary::reciprocal),
    op("Floor", 1, unary::floor),
    op("Ceil", 1, unary::ceil),
    op("Round", 11, unary::round),
    op("Sin", 7, unary::sin),
    op("Cos", 7, unary::cos),
    op("Tan", 7, unary::tan),
    op("Asin", 7, unary::asin),
    op("Acos", 7, unary::acos),
    op("Atan", 7, unary::atan),
    op("Sinh", 9, unary::sinh),
    op("Cosh", 9, unary::cosh),
    op("Asinh", 9, unary::asinh),
    op("Acosh", 9, unary::acosh),
    op("Atanh", 9, unary::atanh),
    op("IsNaN", 9, unary::is_nan),
    op("IsInf", 10, unary::is_inf),
    op("Not", 1, unary::not),
    op("BitwiseNot", 18, unary::bitwise_not),
    op("Clip", 1, unary::clip),
    // Types.
    op("Cast", 1, cast::cast),
    op("CastLike", 15, cast::cast_like),
    op("BitCast", 26, cast::bit_cast),
    // Comparisons and logic.
    op("Equal", 1, compare::equal),
    op("Less", 1, compare::less),
    op("LessOrEqual", 12, compare::less_or_equal),
    op("Greater", 1, compare::greater),
    op("GreaterOrEqual", 12, compare::greater_or_equal),
    op("And", 1, compare::and),
    op("Or", 1, compare::or),
    op("Xor", 1, compare::xor),
    op("Where", 9, compare::where_),
    // Reductions and scans.
    op("ReduceSum", 1, reduce::sum),
    op("ReduceMean", 1, reduce::mean),
    op("ReduceProd", 1, reduce::prod),
    op("ReduceMax", 1, reduce::max),
    op("ReduceMin", 1, reduce::min),
    op("ReduceL1", 1, reduce::l1),
    op("ReduceL2", 1, reduce::l2),
    op("ReduceSumSquare", 1, reduce::sum_square),
    op("ReduceLogSum", 1, reduce::log_sum),
    op("ReduceLogSumExp", 1, reduce::log_sum_exp),
    op("ArgMax", 1, reduce::arg_max),
    op("ArgMin", 1, reduce::arg_min),
    op("CumSum", 11, scan::cum_sum),
    op("CumProd", 26, scan::cum_prod),
    op("Softmax", 1, softmax::softmax),
    op("LogSoftmax", 1, softmax::log_softmax),
    op("Hardmax", 1, softmax::hardmax),
    op("TopK", 1, sort::top_k),
    // Normalizations.
    op("LayerNormalization", 17, norm::layer_normalization),
    op("RMSNormalization", 23, norm::rms_normalization),
    op("BatchNormalization", 1, norm::batch_normalization),
    op("InstanceNormalization", 1, norm::instance_normalization),
    op("GroupNormalization", 18, norm::group_normalization),
    op("LpNormalization", 1, norm::lp_normalization),
    op("LRN", 1, norm::local_response_normalization),
    op("MeanVarianceNormalization", 9, norm::mean_variance_normalization),
    // Contractions.
    op("MatMul", 1, contract::matmul),
    op("Gemm", 1, contract::gemm),
    op("Einsum", 12, einsum::einsum),
    op("Conv", 1, conv::conv),
    op("ConvTranspose", 1, conv::conv_transpose),
    op("Det", 11, create::det),
    // Attention.
    op("Attention", 23, attention::attention),
    op("RotaryEmbedding", 23, attention::rotary_embedding),
    op("LinearAttention", 27, linear_attention::linear_attention),
    op("CausalConvWithState", 27, linear_attention::causal_conv),
    // Poolings.
    op("MaxPool", 1, pool::max_pool),
    op("AveragePool", 1, pool::average_pool),
    op("LpPool", 1, pool::lp_pool),
    op("GlobalAveragePool", 1, pool::global_average_pool),
    op("GlobalMaxPool", 1, pool::global_max_pool),
    op("GlobalLpPool", 1, pool::global_lp_pool),
    op("MaxUnpool", 9, pool::max_unpool),
    op("Col2Im", 18, pool::col2im),
    op("RoiAlign", 10, roi::roi_align),
    op("MaxRoiPool", 1, roi::max_roi_pool),
    // Reading between elements.
    op("GridSample", 16, sample::grid_sample),
    op("AffineGrid", 20, sample::affine_grid),
    op("DeformConv", 19, sample::deform_conv),
    // Fourier transforms.
    op("DFT", 17, fourier::dft),
    op("STFT", 17, fourier::stft),
    op("MelWeightMatrix", 17, fourier::mel_weight_matrix),
    // Losses and steps of optimisers.
    op("NegativeLogLikelihoodLoss", 12, loss::negative_log_likelihood),
    op("SoftmaxCrossEntropyLoss", 12, loss::softmax_cross_entropy),
    training("Adagrad", training::adagrad),
    training("Adam", training::adam),
    training("Momentum", training::momentum),
    // Movement.
    op("Identity", 1, movement::identity).on_values(),
    op("ImageDecoder", 20, image::decode),
    // Operators that hold graphs.
    op("If", 1, control::choose).on_values(),
    op("Loop", 1, control::iterate).on_values(),
    op("Scan", 8, control::scan::scan),
    op("SequenceMap", 17, control::map).on_values(),
    preview("FlexAttention", attention::flex::flex_attention),
    // Sequences and optionals.
    op("SequenceConstruct", 11, values::construct).on_values(),
    op("SequenceEmpty", 11, values::empty),
    op("SequenceAt", 11, values::at).on_values(),
    op("SequenceInsert", 11, values::insert).on_values(),
    op("SequenceErase", 11, values::erase).on_values(),
    op("SequenceLength", 11, values::length).on_values(),
    op("SplitToSequence", 11, values::split),
    op("ConcatFromSequence", 11, values::concat).on_values(),
    op("Optional", 15, values::optional).on_values(),
    op("OptionalHasElement", 15, values::has_element).on_values(),
    op("OptionalGetElement", 15, values::get_element).on_values(),
    op("Dropout", 1, movement::dropout),
    op("Reshape", 1, movement::reshape),
    op("Flatten", 1, movement::flatten),
    op("Squeeze", 1, movement::squeeze),
    op("Unsqueeze", 1, movement::unsqueeze),
    op("Transpose", 1, movement::transpose),
    op("Expand", 8, movement::expand),
    op("Tile", 1, movement::tile),
    op("Concat", 1, movement::concat),
    op("Split", 1, movement::split),
    op("DepthToSpace", 1, movement::depth_to_space),
    op("SpaceToDepth", 1, movement::space_to_depth),
    op("ReverseSequence", 10, movement::reverse_sequence),
    op("Slice", 1, slice::slice),
    op("Pad", 1, pad::pad),
    op("CenterCropPad", 18, pad::center_crop_pad),
    op("Resize", 10, resize::resize),
    op("Upsample", 1, resize::upsample).until(9),
    // Gathering and scattering.
    op("Gather", 1, gather_scatter::gather),
    op("GatherElements", 11, gather_scatter::gather_elements),
    op("GatherND", 11, gather_scatter::gather_nd),
    op("Scatter", 9, gather_scatter::scatter_elements).until(10),
    op("ScatterElements", 11, gather_scatter::scatter_elements),
    op("ScatterND", 11, gather_scatter::scatter_nd),
    op("TensorScatter", 24, gather_scatter::tensor_scatter),
    op("Compress", 9, select_rows::compress),
    op("NonZero", 9, select_rows::non_zero),
    op("Unique", 11, select_rows::unique),
    op("NonMaxSuppression", 10, boxes::non_max_suppression),
    // Tensors from shapes and scalars.
    op("Constant", 1, create::constant),
    op("ConstantOfShape", 9, create::constant_of_shape),
    op("Shape", 1, create::shape_of),
    op("Size", 1, create::size),
    op("Range", 11, create::range),
    op("EyeLike", 9, create::eye_like),
    op("OneHot", 9, create::one_hot),
    op("Trilu", 14, create::trilu),
    op("HannWindow", 17, create::hann_window),
    op("HammingWindow", 17, create::hamming_window),
    op("BlackmanWindow", 17, create::blackman_window),
    // Quantization.
    op("QuantizeLinear", 10, linear_quantize::quantize_linear),
    op("DequantizeLinear", 10, linear_quantize::dequantize_linear),
    op("DynamicQuantizeLinear", 11, linear_quantize::dynamic_quantize_linear),
    op("MatMulInteger", 10, quantized::matmul_integer),
    op("ConvInteger", 10, quantized::conv_integer),
    op("QLinearMatMul", 10, quantized::qlinear_matmul),
    op("QLinearConv", 10, quantized::qlinear_conv),
    microsoft("QuantizeLinear", linear_quantize::quantize_linear),
    microsoft("DequantizeLinear", linear_quantize::dequantize_linear),
    microsoft("QLinearAdd", microsoft::qlinear_add),
    microsoft("QLinearConv", microsoft::qlinear_conv),
    microsoft("NhwcMaxPool", microsoft::nhwc_max_pool),
    microsoft("QLinearMul", microsoft::qlinear_mul),
    microsoft("QLinearSigmoid", microsoft::qlinear_sigmoid),
    microsoft("QLinearLeakyRelu", microsoft::qlinear_leaky_relu),
    microsoft("QLinearAveragePool", microsoft::qlinear_average_pool),
    microsoft("QLinearGlobalAveragePool", microsoft::qlinear_global_average_pool),
    microsoft("QLinearConcat", microsoft::qlinear_concat),
    microsoft("QLinearWhere", microsoft::qlinear_where),
    microsoft("QGemm", microsoft::qgemm),
    microsoft("MatMulIntegerToFloat", microsoft::matmul_integer_to_float),
    microsoft("DynamicQuantizeMatMul", microsoft::dynamic_quantize_matmul),
    microsoft("MatMulNBits", microsoft::matmul_n_bits),
    // Random numbers.
    op("RandomUniform", 1, random::uniform),
    op("RandomUniformLike", 1, random::uniform_like),
    op("RandomNormal", 1, random::normal),
    op("RandomNormalLike", 1, random::normal_like),
    op("Bernoulli", 15, random::bernoulli),
    op("Multinomial", 7, random::multinomial),
    // Text.
    op("StringConcat", 20, strings::concat),
    op("StringSplit", 20, strings::split),
    op("StringNormalizer", 10, strings::normalize),
    op("RegexFullMatch", 20, strings::full_match),
    op("TfIdfVectorizer", 9, strings::tf_idf),
    // Tables of features.
    ml("ArrayFeatureExtractor", features::extract),
    ml("Binarizer", features::binarize),
    ml("FeatureVectorizer", features::vectorize),
    ml("Imputer", features::impute),
    ml("Normalizer", features::normalize),
    ml("Scaler", features::scale),
    ml("LabelEncoder", labels::encode),
    ml("CategoryMapper", labels::map_categories),
    ml("OneHotEncoder", labels::one_hot),
    ml("LinearRegressor", linear::regress),
    ml("LinearClassifier", linear::classify),
    ml("SVMRegressor", svm::regress),
    ml("SVMClassifier", svm::classify),
    ml("TreeEnsemble", trees::ensemble),
    ml("TreeEnsembleRegressor", trees::regress),
    ml("TreeEnsembleClassifier", trees::classify),
    // Maps.
    ml("ZipMap", maps::zip),
    ml("CastMap", maps::cast).on_values(),
    ml("DictVectorizer", maps::vectorize).on_values(),
    // Recurrent networks.
    op("RNN", 1, recurrent::rnn),
    op("GRU", 1, recurrent::gru),
    op("LSTM", 1, recurrent::lstm),
];

/// ONNX's own domain has two spellings.
fn canonical(domain: &str) -> &str {
    if domain == "ai.onnx" { "" } else { domain }
}

/// The entry for an operator in some opset.
#[must_use]
pub fn find(op_type: &str, domain: &str, opset: i64) -> Option<&'static Operator> {
    let domain = canonical(domain);
    OPERATORS.iter().find(|o| o.name == op_type && o.domain == domain && (o.since..=o.until).contains(&opset))
}

/// True if there is a definition of this operator in any opset.
#[must_use]
pub fn is_supported(op_type: &str, domain: &str) -> bool {
    let domain = canonical(domain);
    OPERATORS.iter().any(|o| o.name == op_type && o.domain == domain)
}
