//! `TensorProto` to [`Tensor`]: every element type in every encoding of the specification.

use std::collections::BTreeMap;
use std::sync::Arc;

use byteorder::{ByteOrder, LittleEndian};
use bytes::Bytes;

use super::external::ExternalFiles;
use super::proto::{SparseTensorProto, TensorProto, tensor_proto::DataLocation};
use super::sparse;
use crate::common::limits;
use crate::error::{Error, Result, invalid, unsupported};
use crate::tensor::{DType, SourceBytes, Tensor};

/// Reads the constants of one model.
pub(super) struct Tensors {
    source: Arc<SourceBytes>,
    pub external: ExternalFiles,
    /// Whether constants may be read again: those of functions.
    pub again: bool,
    /// Constants by the address of their message: a function that is called a thousand times has its
    /// constants once.
    copied: BTreeMap<usize, Tensor>,
    /// The bytes that sparse constants may still take.
    dense_left: usize,
}

impl Tensors {
    /// Creates a reader of a model's constants, with its external data.
    pub fn new(source: &Arc<SourceBytes>, external: ExternalFiles) -> Tensors {
        Tensors {
            source: source.clone(),
            external,
            again: false,
            copied: BTreeMap::new(),
            dense_left: limits::DENSE_BYTES,
        }
    }

    /// Reads a constant. Errors name it.
    pub fn read(&mut self, proto: &TensorProto) -> Result<Tensor> {
        let address = std::ptr::from_ref(proto).addr();
        self.read_once(address, |tensors| tensors.read_data(proto)).map_err(|e| match proto.name.as_deref() {
            None | Some("") => e,
            Some(name) => e.at_part(format!("tensor \"{name}\"")),
        })
    }

    /// Reads a constant by its nonzero elements. Errors name it.
    pub fn read_sparse(&mut self, proto: &SparseTensorProto) -> Result<Tensor> {
        let address = std::ptr::from_ref(proto).addr();
        let name = proto.values.as_ref().and_then(|values| values.name.as_deref()).unwrap_or_default();
        self.read_once(address, |tensors| tensors.read_sparse_data(proto))
            .map_err(|e| e.at_part(format!("sparse tensor \"{name}\"")))
    }

    fn read_once(
        &mut self,
        address: usize,
        read: impl FnOnce(&mut Self) -> Result<Tensor>,
    ) -> Result<Tensor> {
        if self.again
            && let Some(tensor) = self.copied.get(&address)
        {
            return Ok(tensor.clone());
        }
        let tensor = read(self)?;
        if self.again {
            self.copied.insert(address, tensor.clone());
        }
        Ok(tensor)
    }

    fn read_sparse_data(&mut self, proto: &SparseTensorProto) -> Result<Tensor> {
        let (Some(values), Some(indices)) = (&proto.values, &proto.indices) else {
            invalid!("values or indices are missing");
        };
        let shape = read_shape(&proto.dims)?;
        let (values, indices) = (self.read_data(values)?, self.read_data(indices)?);
        sparse::densify(shape, &values, &indices, &mut self.dense_left)
    }

    fn read_data(&mut self, proto: &TensorProto) -> Result<Tensor> {
        if proto.segment.is_some() {
            unsupported!("segmented tensors are not supported");
        }
        let code = proto.data_type.unwrap_or(0);
        let Some(dtype) = DType::from_onnx(code) else { invalid!("unknown element type {code}") };
        let shape = read_shape(&proto.dims)?;
        if proto.data_location == Some(i32::from(DataLocation::External)) {
            if dtype == DType::String {
                invalid!("strings in an external file");
            }
            return self.external.tensor(dtype, shape, &proto.external_data);
        }
        if dtype == DType::String {
            // No convertible operator reads strings; their use as an array is refused.
            return Tensor::from_text(shape, proto.string_data.clone());
        }
        match &proto.raw_data {
            Some(raw) if !raw.is_empty() => {
                check_no_typed_data(proto)?;
                Tensor::from_source(dtype, shape, raw.clone(), &self.source)
            }
            _ => Tensor::from_raw(dtype, shape, typed_bytes(proto, dtype)?),
        }
    }
}

pub(super) fn read_shape(dims: &[i64]) -> Result<Vec<usize>> {
    let size = |d: &i64| usize::try_from(*d).map_err(|_| Error::invalid(format!("an axis has size {d}")));
    dims.iter().map(size).collect()
}

/// Returns the typed fields of a tensor that are not empty.
fn typed_fields(proto: &TensorProto) -> Vec<&'static str> {
    let fields = [
        ("float_data", proto.float_data.is_empty()),
        ("int32_data", proto.int32_data.is_empty()),
        ("int64_data", proto.int64_data.is_empty()),
        ("double_data", proto.double_data.is_empty()),
        ("uint64_data", proto.uint64_data.is_empty()),
        ("string_data", proto.string_data.is_empty()),
    ];
    fields.into_iter().filter(|(_, empty)| !empty).map(|(name, _)| name).collect()
}

fn check_no_typed_data(proto: &TensorProto) -> Result<()> {
    match typed_fields(proto).first() {
        Some(field) => Err(Error::invalid(format!("data in raw_data and in {field}"))),
        None => Ok(()),
    }
}

/// Returns the field for elements of a type that are not raw.
fn field_of(dtype: DType) -> &'static str {
    match dtype {
        DType::F32 | DType::C64 => "float_data",
        DType::F64 | DType::C128 => "double_data",
        DType::I64 => "int64_data",
        DType::U32 | DType::U64 => "uint64_data",
        DType::String => "string_data",
        _ => "int32_data",
    }
}

/// Returns the elements of a typed field as `raw_data`.
fn typed_bytes(proto: &TensorProto, dtype: DType) -> Result<Bytes> {
    let field = field_of(dtype);
    if let Some(other) = typed_fields(proto).into_iter().find(|name| *name != field) {
        invalid!("data in {other}, expected {field} for {dtype}");
    }
    let bytes: Vec<u8> = match field {
        "float_data" => bytes_of(&proto.float_data, LittleEndian::write_f32_into),
        "double_data" => bytes_of(&proto.double_data, LittleEndian::write_f64_into),
        "int64_data" => bytes_of(&proto.int64_data, LittleEndian::write_i64_into),
        "uint64_data" => low_bytes(proto.uint64_data.iter().map(|x| x.to_le_bytes()), dtype),
        _ if dtype.bits() == 6 => pack_six(&proto.int32_data)?,
        _ if dtype == DType::Bool => proto.int32_data.iter().map(|x| u8::from(*x != 0)).collect(),
        _ => low_bytes(proto.int32_data.iter().map(|x| x.to_le_bytes()), dtype),
    };
    Ok(bytes.into())
}

fn bytes_of<T>(elements: &[T], write: fn(&[T], &mut [u8])) -> Vec<u8> {
    let mut bytes = vec![0; size_of_val(elements)];
    write(elements, &mut bytes);
    bytes
}

/// Packs elements of six bits, one by one in `int32_data`, to the bit stream of `raw_data`, low bits first.
fn pack_six(elements: &[i32]) -> Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(elements.len());
    for four in elements.chunks(4) {
        let mut stream = 0_u32;
        for (i, element) in (0_u32..).zip(four) {
            match u32::try_from(*element) {
                Ok(element) if element < 1 << 6 => stream |= element.wrapping_shl(6 * i),
                _ => invalid!("{element} does not fit in six bits"),
            }
        }
        bytes.extend(stream.to_le_bytes().iter().take((6 * four.len()).div_ceil(8)));
    }
    Ok(bytes)
}

/// Returns the low bytes of wider integers, as many as an element takes. Types under eight bits are packed in
/// the lowest byte.
fn low_bytes<const N: usize>(words: impl Iterator<Item = [u8; N]>, dtype: DType) -> Vec<u8> {
    let width = dtype.bits().div_ceil(8);
    words.flat_map(|word| word.into_iter().take(width)).collect()
}
