//! The messages of a graph: those of the main graph are decoded one by one, since all together take more
//! memory than the graph.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use prost::{DecodeError, Message};
use smallvec::SmallVec;

use super::limit::Fields;
use super::other_file::not_a_model;
use super::proto::{GraphProto, ModelProto, NodeProto, TensorProto};
use crate::error::{Error, Result};
use crate::tensor::{Passing, SourceBytes};

/// Fields of ModelProto, GraphProto, NodeProto and TensorProto.
const GRAPH: u32 = 7;
const NODE: u32 = 1;
const INITIALIZER: u32 = 5;
const OUTPUT: u32 = 2;
const NAME: u32 = 8;

/// A model during decoding.
pub(super) struct Encoded<'m> {
    source: &'m Arc<SourceBytes>,
    bytes: &'m Bytes,
}

/// The main graph, with encoded nodes and initializers.
pub(super) struct Main<'m> {
    encoded: &'m Encoded<'m>,
    nodes: Vec<&'m [u8]>,
    initializers: Vec<&'m [u8]>,
}

impl<'m> Encoded<'m> {
    /// Creates the decoder of a model.
    pub fn new(source: &'m Arc<SourceBytes>, bytes: &'m Bytes) -> Encoded<'m> {
        Encoded { source, bytes }
    }

    /// Decodes the model except for the nodes and initializers of its main graph, and returns both.
    pub fn decode(&'m self) -> Result<(ModelProto, Main<'m>)> {
        let mut model = ModelProto::default();
        let mut main = Main { encoded: self, nodes: Vec::new(), initializers: Vec::new() };
        for (field, whole, content) in Fields(self.bytes).wholes() {
            let (GRAPH, Some(content)) = (field, content) else {
                self.merge(&mut model, whole)?;
                continue;
            };
            let graph = model.graph.get_or_insert_default();
            for (field, whole, content) in Fields(content).wholes() {
                match (field, content) {
                    (NODE, Some(node)) => main.nodes.push(node),
                    (INITIALIZER, Some(tensor)) => main.initializers.push(tensor),
                    _ => self.merge(graph, whole)?,
                }
            }
        }
        Ok((model, main))
    }

    fn merge(&self, message: &mut impl Message, part: &[u8]) -> Result<()> {
        message.merge(self.passing(part)).map_err(|error| self.failed(error))
    }

    fn passing(&self, part: &[u8]) -> Passing {
        Passing::part(self.source, self.bytes.slice_ref(part))
    }

    fn failed(&self, error: DecodeError) -> Error {
        not_a_model(self.source, Some(error))
    }
}

/// Decoded or encoded messages.
pub(super) enum Messages<'n, M> {
    Decoded(&'n [M]),
    Encoded(&'n Encoded<'n>, &'n [&'n [u8]]),
}

/// A graph to be read.
pub(super) struct Parts<'n> {
    /// The graph without nodes and initializers.
    pub proto: &'n GraphProto,
    pub nodes: Messages<'n, NodeProto>,
    pub initializers: Messages<'n, TensorProto>,
}

impl<'n> Parts<'n> {
    /// Returns the parts of the main graph, the rest of which is `proto`.
    pub fn of_main(main: &'n Main<'n>, proto: &'n GraphProto) -> Parts<'n> {
        Parts {
            proto,
            nodes: Messages::Encoded(main.encoded, &main.nodes),
            initializers: Messages::Encoded(main.encoded, &main.initializers),
        }
    }

    /// Returns the parts of a body.
    pub fn of_body(proto: &'n GraphProto) -> Parts<'n> {
        let (nodes, initializers) = (&proto.node, &proto.initializer);
        Parts { proto, nodes: Messages::Decoded(nodes), initializers: Messages::Decoded(initializers) }
    }
}

/// The names in a message, as references.
type Names<'n> = SmallVec<[&'n [u8]; 2]>;

impl<'n, M: Message + Default + Clone> Messages<'n, M> {
    /// Returns the number of messages.
    pub fn len(&self) -> usize {
        match self {
            Messages::Decoded(messages) => messages.len(),
            Messages::Encoded(_, messages) => messages.len(),
        }
    }

    /// Returns each message, and the names in one of its fields.
    fn each(
        &self,
        field: u32,
        names: impl Fn(&'n M) -> Names<'n>,
    ) -> impl Iterator<Item = Result<(Cow<'n, M>, Names<'n>)>> {
        (0..self.len()).filter_map(move |index| match self {
            Messages::Decoded(messages) => {
                messages.get(index).map(|message| Ok((Cow::Borrowed(message), names(message))))
            }
            Messages::Encoded(encoded, messages) => messages.get(index).map(|message| {
                let decoded = M::decode(encoded.passing(message)).map_err(|error| encoded.failed(error))?;
                let names = Fields(message).flatten().filter(|(number, _)| *number == field);
                Ok((Cow::Owned(decoded), names.map(|(_, name)| name).collect()))
            }),
        })
    }
}

impl<'n> Messages<'n, NodeProto> {
    /// Returns each node, and the names of its outputs.
    pub fn with_outputs(&self) -> impl Iterator<Item = Result<(Cow<'n, NodeProto>, Names<'n>)>> {
        self.each(OUTPUT, |node| node.output.iter().map(|name| name.as_bytes()).collect())
    }
}

impl<'n> Messages<'n, TensorProto> {
    /// Returns each constant, and its name.
    pub fn with_names(&self) -> impl Iterator<Item = Result<(Cow<'n, TensorProto>, &'n [u8])>> {
        let named = self.each(NAME, |tensor| tensor.name.iter().map(|name| name.as_bytes()).collect());
        named
            .map(|message| message.map(|(tensor, names)| (tensor, names.last().copied().unwrap_or_default())))
    }
}
