//! Casts to integers of floats computed from sizes, such as `Cast(Ceil(Cast(size) / 8 + 1))`: the elements
//! are sizes.
//!
//! The floats are quotients of sizes by numbers, or products with constants that are next to quotients. Their
//! arithmetic in float32 is exact, or rounds to the same integers, up to sizes that are required as
//! conditions.

use ndarray::ArrayD;
use num_traits::AsPrimitive;

use crate::op::find;
use crate::ops::prelude::*;
use crate::tensor::zip_broadcast;

/// The maximum number of operators between two casts.
const MAX_DEPTH: usize = 16;

/// The largest numerator: float32 represents all integers up to it, and their quotients by powers of two.
const MAX_EXACT: i64 = 1 << 24;

/// The largest numerator over another number: the errors of a quotient and of a sum are together less than
/// its distance from the next integer.
const MAX_ROUNDED: i64 = 1 << 22;

/// The largest divisor of a constant.
const MAX_DIVISOR: i64 = 1 << 10;

/// The largest size that is multiplied by a rounded constant, such as 1.7.
const MAX_SCALED: i64 = 1 << 16;

/// Floats that are integers over a number.
struct Quotients {
    numerators: ArrayD<Dim>,
    /// At least 1.
    divisor: i64,
    /// Whether they are rounded, because the divisor is other than a power of two.
    rounded: bool,
}

/// Returns the elements of input 0 as integers, if they are computed from sizes. Requires that float32
/// computes the same ones.
pub(super) fn truncated(call: &Call, to: DType) -> Result<Option<Array>> {
    let Some(id) = call.node().input(0) else { return Ok(None) };
    let value = call.graph().value(id);
    let is_float = matches!(value.dtype, Some(DType::F32 | DType::F64));
    if !is_float || !matches!(to, DType::I32 | DType::I64) || value.constant.is_some() {
        return Ok(None);
    }
    let mut required = Vec::new();
    let Some(found) = quotients(call.graph(), id, MAX_DEPTH, &mut required) else { return Ok(None) };
    let whole = |x: &Dim| {
        let divisor = Dim::Known(found.divisor);
        if x.exact_div(&divisor).is_none() {
            required.push(SizeCondition::at_least(x, 0));
        }
        x.floor_div(&divisor)
    };
    let elements: Vec<Dim> = found.numerators.iter().map(whole).collect();
    // No size satisfies both: the layers compute the cast.
    let Ok(required) = required.into_iter().collect::<Result<Vec<_>>>() else { return Ok(None) };
    if elements.iter().any(|size| matches!(size, Dim::Undefined(_))) {
        return Ok(None);
    }
    required.into_iter().try_for_each(|condition| call.require(Ok(condition)))?;
    let elements = ArrayD::from_shape_vec(found.numerators.raw_dim(), elements)?;
    Ok(Some(Array::new(to, Elements::Dim(elements))))
}

/// Conditions on sizes, or the errors of conditions that no size satisfies.
type Required = Vec<Result<Option<SizeCondition>>>;

/// Returns the elements of a float value.
fn quotients(graph: &Graph, id: ValueId, depth: usize, required: &mut Required) -> Option<Quotients> {
    let value = graph.value(id);
    if let Some(constant) = &value.constant {
        return constants(constant.load_listed().ok()?.as_ref());
    }
    let node = graph.node(value.producer?)?;
    let depth = depth.checked_sub(1)?;
    if node.is("Cast") {
        if let Some(elements) = &graph.value(node.input(0)?).elements {
            let numerators = elements.to_dims().ok()?;
            return Quotients { numerators, divisor: 1, rounded: false }.within(required);
        }
        let is_wide = matches!(value.dtype, Some(DType::F32 | DType::F64));
        return quotients(graph, node.input(0)?, depth, required).filter(|_| is_wide);
    }
    if find(node).is_some_and(|op| op.access == Access::View) {
        let x = quotients(graph, node.input(0)?, depth, required)?;
        let sizes: Option<Vec<usize>> = Dim::known_sizes(value.shape.as_deref()?);
        return Some(Quotients { numerators: x.numerators.to_shape(sizes?).ok()?.into_owned(), ..x });
    }
    let mut of = |index: usize| quotients(graph, node.input(index)?, depth, required);
    let mut scaled = Vec::new();
    let found = match OPERATORS.iter().find(|(op_type, _)| node.is(op_type))?.1 {
        Operator::Floor => Some(of(0)?.rounded(Dim::floor_div)),
        Operator::Ceil => Some(of(0)?.rounded(Dim::ceil_div)),
        Operator::Sum => of(0)?.plus(&of(1)?, 1),
        Operator::Difference => of(0)?.plus(&of(1)?, -1),
        Operator::Product => of(0)?.times(&of(1)?, value.dtype?, &mut scaled),
        Operator::Quotient => of(0)?.over(&of(1)?),
        Operator::Minimum | Operator::Maximum => {
            let choose = if node.is("Min") { Dim::minimum } else { Dim::maximum };
            return (1..node.inputs.len()).try_fold(of(0)?, |x, index| x.extreme(&of(index)?, choose));
        }
    };
    required.append(&mut scaled);
    found?.within(required)
}

#[derive(Clone, Copy)]
enum Operator {
    Floor,
    Ceil,
    Sum,
    Difference,
    Product,
    Quotient,
    Minimum,
    Maximum,
}

const OPERATORS: [(&str, Operator); 8] = [
    ("Floor", Operator::Floor),
    ("Ceil", Operator::Ceil),
    ("Add", Operator::Sum),
    ("Sub", Operator::Difference),
    ("Mul", Operator::Product),
    ("Div", Operator::Quotient),
    ("Min", Operator::Minimum),
    ("Max", Operator::Maximum),
];

/// Returns constants as quotients by a power of two, or as the floats next to quotients by another number.
fn constants(array: &Array) -> Option<Quotients> {
    let elements = array.to_f64().ok()?;
    let numerators = |divisor: i64| {
        let by: f64 = divisor.as_();
        elements.mapv(|x| (x * by).round().as_())
    };
    let is_nearest = |divisor: &i64| {
        let mut pairs = elements.iter().zip(numerators(*divisor));
        pairs.all(|(x, numerator)| quotient_of(numerator, *divisor, array.dtype()) == *x)
    };
    let powers = std::iter::successors(Some(1_i64), |n| n.checked_mul(2)).take_while(|n| *n <= MAX_DIVISOR);
    let divisor = powers.chain(1..=MAX_DIVISOR).find(is_nearest)?;
    let rounded = !is_power_of_two(divisor);
    Some(Quotients { numerators: numerators(divisor).mapv(Dim::Known), divisor, rounded })
}

/// Returns the float of a type that is next to a quotient.
fn quotient_of(numerator: i64, divisor: i64, dtype: DType) -> f64 {
    let (numerator, divisor): (f64, f64) = (numerator.as_(), divisor.as_());
    round_to(numerator / divisor, dtype)
}

fn round_to(x: f64, dtype: DType) -> f64 {
    let single: f32 = x.as_();
    if dtype == DType::F64 { x } else { single.into() }
}

/// Returns a size up to which the product with a rounded constant is an integer where that with the quotient
/// is one.
fn scaled_exactly(numerator: i64, divisor: i64, dtype: DType) -> i64 {
    let constant = quotient_of(numerator, divisor, dtype);
    let whole = |size: &i64| size.checked_mul(numerator).filter(|product| product % divisor == 0);
    let differs = |size: &i64| {
        let by: f64 = size.as_();
        whole(size).is_some_and(|product| {
            let expected: f64 = (product / divisor).as_();
            round_to(constant * by, dtype) != expected
        })
    };
    (1..=MAX_SCALED).find(differs).map_or(MAX_SCALED, |size| size - 1)
}

impl Quotients {
    /// Requires that float32 represents the quotients, or so near that they are rounded to the same integers.
    fn within(self, required: &mut Required) -> Option<Quotients> {
        let most = if self.rounded { MAX_ROUNDED } else { MAX_EXACT };
        for numerator in &self.numerators {
            required.push(SizeCondition::at_most(numerator, most));
            required.push(SizeCondition::at_least(numerator, -most));
        }
        Some(self)
    }

    /// Returns the integers to which a division rounds.
    fn rounded(self, divide: fn(&Dim, i64) -> Dim) -> Quotients {
        let numerators = self.numerators.map(|x| divide(x, self.divisor));
        Quotients { numerators, divisor: 1, rounded: false }
    }

    /// Returns whether a sum with the integers or quotients of `other` has the error that is accounted for.
    fn adds(&self, other: &Quotients) -> bool {
        !self.rounded || (other.divisor == 1 && !other.rounded)
    }

    fn plus(&self, other: &Quotients, sign: i64) -> Option<Quotients> {
        if !self.adds(other) || !other.adds(self) {
            return None;
        }
        let divisor = self.divisor.checked_mul(other.divisor)?;
        let others = self.divisor.checked_mul(sign)?;
        let sum = |x: &Dim, y: &Dim| x * other.divisor + y * others;
        let numerators = zip_broadcast(&self.numerators, &other.numerators, sum).ok()?;
        Some(Quotients { numerators, divisor, rounded: self.rounded || other.rounded })
    }

    /// Returns the products, of which one side may be rounded constants, if the other one consists of
    /// integers.
    fn times(&self, other: &Quotients, dtype: DType, required: &mut Required) -> Option<Quotients> {
        let divisor = self.divisor.checked_mul(other.divisor)?;
        let rounded = self.rounded || other.rounded;
        if rounded {
            let (constants, sizes) = if self.rounded { (self, other) } else { (other, self) };
            if sizes.rounded || sizes.divisor != 1 {
                return None;
            }
            let known: Option<Vec<i64>> = constants.numerators.iter().map(Dim::known).collect();
            let exactly = |numerator: i64| scaled_exactly(numerator, constants.divisor, dtype);
            let most = known?.into_iter().map(exactly).min()?;
            for size in &sizes.numerators {
                required.push(SizeCondition::at_most(size, most));
                required.push(SizeCondition::at_least(size, -most));
            }
        }
        let numerators = zip_broadcast(&self.numerators, &other.numerators, |x, y| x * y).ok()?;
        Some(Quotients { numerators, divisor, rounded })
    }

    /// Returns the minima or maxima. They are elements of the operands, so nothing is rounded again.
    fn extreme(&self, other: &Quotients, choose: fn(&Dim, Dim) -> Dim) -> Option<Quotients> {
        let divisor = self.divisor.checked_mul(other.divisor)?;
        let chosen = |x: &Dim, y: &Dim| choose(&(x * other.divisor), y * self.divisor);
        let numerators = zip_broadcast(&self.numerators, &other.numerators, chosen).ok()?;
        let is_int = |x: &Dim| x.known().is_none_or(|x| i32::try_from(x).is_ok());
        let rounded = self.rounded || other.rounded;
        numerators.iter().all(is_int).then_some(Quotients { numerators, divisor, rounded })
    }

    /// Returns the quotients by a number.
    fn over(&self, other: &Quotients) -> Option<Quotients> {
        let mut divisors = other.numerators.iter().map(Dim::known);
        let by = divisors.next()?.filter(|by| *by > 0)?;
        if self.rounded || other.rounded || divisors.any(|other| other != Some(by)) {
            return None;
        }
        let divisor = self.divisor.checked_mul(by)?;
        let scaled = |x: &Dim, _: &Dim| x * other.divisor;
        let numerators = zip_broadcast(&self.numerators, &other.numerators, scaled).ok()?;
        Some(Quotients { numerators, divisor, rounded: !is_power_of_two(divisor) })
    }
}

fn is_power_of_two(n: i64) -> bool {
    n.count_ones() == 1
}
