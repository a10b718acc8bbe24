//! The two files, both or none.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use super::Net;
use super::layer::Storage;
use crate::error::{Error, ErrorKind, Result};
use crate::output::{self, Target};

/// The tag of a weight of singles (`ModelBinFromDataReader::load`).
const TAG_F32: [u8; 4] = [0; 4];

/// What was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    /// Layers of the net.
    pub layers: usize,
    /// Blobs of the net.
    pub blobs: usize,
    /// Bytes of the `.param` file.
    pub param_bytes: u64,
    /// Bytes of the `.bin` file.
    pub bin_bytes: u64,
}

impl Net {
    /// Checks the net and writes it. After an error both files are as they were.
    pub fn write(&self, param_path: &Path, bin_path: &Path) -> Result<Written> {
        self.check()?;
        let (param, bin) = (Target::new(param_path)?, Target::new(bin_path)?);
        if param.is(&bin) {
            return Err(Error::new(ErrorKind::Io, "both files would be the same").in_file(bin_path));
        }
        let new_param = param.write(|out| self.write_param(out))?;
        let new_bin = bin.write(|out| self.write_bin(out))?;
        let (layers, blobs) = self.counts();
        let written = Written { layers, blobs, param_bytes: new_param.len, bin_bytes: new_bin.len };
        output::put_all(vec![(bin, new_bin), (param, new_param)])?;
        Ok(written)
    }

    fn write_param(&self, out: &mut BufWriter<File>) -> Result<()> {
        let failed = |error| Error::io("writing failed", error);
        out.write_all(self.head().as_bytes()).map_err(failed)?;
        for layer in &self.layers {
            out.write_all(self.line(layer).as_bytes()).map_err(failed)?;
        }
        Ok(())
    }

    fn write_bin(&self, out: &mut BufWriter<File>) -> Result<()> {
        for layer in &self.layers {
            for weight in layer.layer.weights() {
                if weight.storage == Storage::Tagged {
                    out.write_all(&TAG_F32).map_err(|error| Error::io("writing failed", error))?;
                }
                weight
                    .tensor
                    .write_f32(out)
                    .map_err(|error| error.at_part(format!("{} of layer \"{}\"", weight.name, layer.name)))?;
            }
        }
        Ok(())
    }
}
