//! Programs that run a converted model.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::Conversion;
use crate::error::{Error, Result};
use crate::example::{self, Classes, Files, Language, Reading, Subject, Text, picture_sides};
use crate::pipeline::{Inspection, Metadata, Rest, rest};
use crate::tensor::Dim;

/// The size from which on free sizes of a program are looked for.
const USUAL: i64 = 320;

/// The sides of square pictures, the preferred ones first.
const SIDES: [i64; 9] = [320, 256, 224, 384, 512, 640, 128, 64, 32];

impl Conversion {
    /// Returns a program that runs the net, and the files that it needs in the same folder: their paths and
    /// texts. It loads the files, gives each input a value of its type and shape, and prints the outputs. Its
    /// language follows from the ending of `path`; it names the files of the net by their paths from its
    /// folder, or by absolute ones.
    ///
    /// # Errors
    ///
    /// `Usage` if the ending does not name a [`Language`]; the model cannot be read again.
    pub fn program(&self, path: &Path, param: &Path, bin: &Path) -> Result<Vec<(PathBuf, String)>> {
        self.program_with(path, param, bin, None)
    }

    /// Like [`Conversion::program`], with the facts of a folder.
    pub(crate) fn program_with(
        &self,
        path: &Path,
        param: &Path,
        bin: &Path,
        text: Option<&Text>,
    ) -> Result<Vec<(PathBuf, String)>> {
        let mut inspection = self.inspection()?;
        if let Some(Text::Classes(Classes { labels, .. }) | Text::Picture(Reading { labels, .. })) = text {
            inspection.metadata.classes.clone_from(labels);
        }
        self.program_of(&inspection, path, (param, bin), text)
    }

    pub(super) fn program_of(
        &self,
        inspection: &Inspection,
        path: &Path,
        (param, bin): (&Path, &Path),
        text: Option<&Text>,
    ) -> Result<Vec<(PathBuf, String)>> {
        let language = Language::of(path).ok_or_else(|| {
            Error::usage("the ending of its name is that of no language: .py, .cpp or .kt").in_file(path)
        })?;
        // The nets of a bundle share a model, and each is a part of it.
        let rest = if text.is_some() { None } else { rest(self) };
        let operators = language.operators(path);
        if operators.0 == path {
            return Err(Error::usage("a program has a file of this name next to it").in_file(path));
        }
        if let Some(file) = language.build_file_of_another(path) {
            let help = "write the program to another folder: programs in C++ and in Kotlin have different build files";
            return Err(Error::usage("it builds programs in another language").in_file(file).help(help));
        }
        let name = |path: &Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let from_folder = |file: &Path| match file.parent() == path.parent() {
            true => name(file),
            false => std::path::absolute(file).unwrap_or_else(|_| file.to_owned()).display().to_string(),
        };
        let (program, param, bin) = (name(path), from_folder(param), from_folder(bin));
        let sizes = self.usual_sizes(&inspection.metadata);
        let model = inspection.files.last().map(|path| name(Path::new(path)));
        let subject = Subject {
            model: model.as_deref().unwrap_or("a model"),
            inputs: &self.inputs,
            outputs: &self.outputs,
            net: &self.net,
            metadata: &inspection.metadata,
            pixels: &self.options.pixels(),
            sizes: &sizes,
            conditions: &self.conditions,
            rest: rest.as_ref(),
            text,
        };
        let of_net = Files { program: &program, param: &param, bin: &bin };
        let mut files = vec![(path.to_owned(), example::program(&subject, &of_net, language)?)];
        files.extend(example::custom_layers(&self.net, language, path)?);
        let operators = matches!(rest, Some(Rest::Computed(_))).then_some(operators);
        let companions = language.companions(path).into_iter().chain(operators);
        files.extend(companions.map(|(path, text)| (path, text.to_owned())));
        Ok(files)
    }

    /// Returns what the model says about its use as YAML, with the sizes of the net, as ultralytics reads it.
    ///
    /// # Errors
    ///
    /// The model cannot be read again.
    pub fn metadata(&self) -> Result<String> {
        Ok(self.metadata_of(&self.inspection()?))
    }

    pub(super) fn metadata_of(&self, inspection: &Inspection) -> String {
        let sides = self.inputs.iter().find_map(picture_sides);
        let sides = sides.and_then(|(height, width, _)| Some([height.known()?, width.known()?]));
        example::metadata(&inspection.metadata, sides)
    }

    /// Returns whether the net reads a picture whose channels come first, and nothing else, as ultralytics
    /// gives it.
    pub fn reads_one_picture(&self) -> bool {
        let [input] = self.inputs.as_slice() else { return false };
        picture_sides(input).is_some() && input.shape.get(1).is_some_and(|n| n.is(1) || n.is(3))
    }

    /// Returns values of the free sizes: those of pictures that the model tells, if the net is valid for
    /// them.
    fn usual_sizes(&self, metadata: &Metadata) -> BTreeMap<String, Dim> {
        let mut fixed = BTreeMap::new();
        if let (Some([h, w]), Some((height, width, _))) =
            (metadata.image_size, self.inputs.iter().find_map(picture_sides))
        {
            for (size, number) in [(height, h), (width, w)] {
                fixed.extend(size.symbol_name().map(|name| (name.to_owned(), Dim::from(number))));
            }
        }
        let known = if fixed.is_empty() { None } else { self.sizes_with(USUAL, &fixed) };
        let other = || self.sizes_at(USUAL).or_else(|| self.sizes_at(1));
        known.or_else(|| self.sizes_of_square()).or_else(other).unwrap_or_default()
    }

    /// Returns values of the free sizes for a square picture, if the net reads one.
    fn sizes_of_square(&self) -> Option<BTreeMap<String, Dim>> {
        let (height, width, _) = self.inputs.iter().find_map(picture_sides)?;
        let names = [height.symbol_name()?, width.symbol_name()?];
        SIDES.into_iter().find_map(|side| {
            let sides = names.map(|name| (name.to_owned(), Dim::from(side)));
            self.sizes_with(side, &BTreeMap::from(sides))
        })
    }
}
