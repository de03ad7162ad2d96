//! The codec of all messages: prost's, which checks the lists of a message before it decodes it.

use std::marker::PhantomData;

use bytes::Buf;
use prost::Message;
use tonic::{
    Status,
    codec::{BufferSettings, Codec, DecodeBuf, Decoder},
};
use tonic_prost::{ProstCodec, ProstDecoder, ProstEncoder};

use super::{list_limits::check_lists, status::input_status};

pub struct CheckedCodec<T, U>(PhantomData<fn(T) -> U>);

pub struct CheckedDecoder<U>(ProstDecoder<U>);

impl<T, U> Default for CheckedCodec<T, U> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<T, U> Codec for CheckedCodec<T, U>
where
    T: Message + Send + 'static,
    U: Message + Default + Send + 'static,
{
    type Encode = T;
    type Decode = U;
    type Encoder = ProstEncoder<T>;
    type Decoder = CheckedDecoder<U>;

    fn encoder(&mut self) -> Self::Encoder {
        ProstCodec::<T, U>::default().encoder()
    }

    fn decoder(&mut self) -> Self::Decoder {
        CheckedDecoder(ProstCodec::<T, U>::default().decoder())
    }
}

impl<U: Message + Default + 'static> Decoder for CheckedDecoder<U> {
    type Item = U;
    type Error = Status;

    fn decode(&mut self, message: &mut DecodeBuf<'_>) -> Result<Option<U>, Status> {
        // The whole message: tonic collects it in one buffer.
        check_lists::<U>([message.chunk(), &[]]).map_err(input_status)?;
        self.0.decode(message)
    }

    fn buffer_settings(&self) -> BufferSettings {
        self.0.buffer_settings()
    }
}
