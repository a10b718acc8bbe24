//! An encoder of protobuf messages.

/// A protobuf message.
#[derive(Default)]
pub struct Message(pub Vec<u8>);

impl Message {
    pub fn len(&self) -> u64 {
        u64::try_from(self.0.len()).unwrap()
    }

    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(u8::try_from(value & 0x7f).unwrap() | 0x80);
            value >>= 7;
        }
        self.0.push(u8::try_from(value).unwrap());
    }

    pub fn number(&mut self, field: u64, value: u64) {
        self.varint(field << 3);
        self.varint(value);
    }

    /// Appends the tag and length of a field of `len` bytes.
    pub fn head(&mut self, field: u64, len: u64) {
        self.varint(field << 3 | 2);
        self.varint(len);
    }

    pub fn text(&mut self, field: u64, text: &str) {
        self.head(field, u64::try_from(text.len()).unwrap());
        self.0.extend(text.as_bytes());
    }

    pub fn message(&mut self, field: u64, message: &Message) {
        self.head(field, message.len());
        self.0.extend(&message.0);
    }

    /// A ModelProto without its graph.
    pub fn model() -> Message {
        let mut model = Message::default();
        model.number(1, 8);
        let mut opset = Message::default();
        opset.number(2, 17);
        model.message(8, &opset);
        model
    }

    /// A ValueInfoProto: float32 of these sizes.
    pub fn value(name: &str, sizes: &[u64]) -> Message {
        let mut shape = Message::default();
        for size in sizes {
            let mut dim = Message::default();
            dim.number(1, *size);
            shape.message(1, &dim);
        }
        let mut tensor = Message::default();
        tensor.number(1, 1);
        tensor.message(2, &shape);
        let mut kind = Message::default();
        kind.message(1, &tensor);
        let mut value = Message::default();
        value.text(1, name);
        value.message(2, &kind);
        value
    }
}
