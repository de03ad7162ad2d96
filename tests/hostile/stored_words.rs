//! Vectors over a 31-bit prime that are on the server and are read as vectors over another field:
//! an id names bytes and their encoding, but no field.

use bytes::Bytes;
use capstan::wire::v1::{self, Field, ScalarEncoding};

use crate::{
    daemon::{
        messages,
        programs::{call, pad, send, stored},
        retry_idle,
    },
    runs::{RANGE, run_call},
    table::{Call, World, good, invalid, settings},
};

const BABY_BEAR: u32 = 2_013_265_921;
/// Canonical over KoalaBear. The last word is not canonical over BabyBear.
const WORDS: [u32; 4] = [0, 1, BABY_BEAR - 1, BABY_BEAR + 5];

fn bytes(words: &[u32]) -> Bytes {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// A vector on the server.
struct StoredWords {
    id: Bytes,
    encoding: ScalarEncoding,
}

impl StoredWords {
    /// Appends zeros to the elements from `offset` on.
    fn padded(&self, field: Field, offset: u64, reduce: bool) -> v1::RunHeader {
        let length = WORDS.len() as u64 - offset;
        let input = v1::InputStep { field: field.into(), rows: 1, length };
        let source = v1::ProgramInput { reduce, ..stored(&self.id, offset) };
        let encoding = match field {
            Field::Bls12381Fr => ScalarEncoding::Canonical,
            Field::Integers => ScalarEncoding::Limbs32,
            Field::Gf2 => ScalarEncoding::PackedBits64,
            _ => self.encoding,
        };
        let sent = v1::SendVector { encoding: encoding.into() };
        let delivery = Some(v1::program_output::Delivery::Send(sent));
        let output = v1::ProgramOutput { delivery, ..send(1) };
        let steps = [v1::step::Operation::Input(input), pad(0, length + 1)];
        call(steps, vec![source], vec![output])
    }

    fn transformed(&self, field: Field) -> Call {
        let spec = v1::NttSpec {
            field: field.into(),
            output_encoding: ScalarEncoding::Canonical31.into(),
            ..messages::ntt_spec(2)
        };
        let input = Some(v1::ntt_request::Input::UploadId(self.id.clone()));
        Call::Ntt(v1::NttRequest { spec: Some(spec), input, keep: false })
    }

    fn get(&self, encoding: Option<i32>, offset: u64, length: u64) -> Call {
        let id = Some(v1::get_request::Id::UploadId(self.id.clone()));
        Call::Get(v1::GetRequest { id, encoding, offset, length })
    }

    /// Reads the vector in each way.
    async fn check(&self, world: &World) {
        let run = |field, offset, reduce| run_call(self.padded(field, offset, reduce));
        let (koala, baby) = (Field::KoalaBear, Field::BabyBear);
        let [given, reduced] = [WORDS, WORDS.map(|word| word % BABY_BEAR)]
            .map(|words| bytes(&[&words[..], &[0]].concat()));
        world.check_answer(good("its own field", run(koala, 0, false), given)).await;
        world.check_answer(good("reduced", run(baby, 0, true), reduced)).await;
        let elements = "program.steps[0].input.elements";
        for offset in [0, 2] {
            let row = invalid("too large", run(baby, offset, false), "NOT_CANONICAL", elements);
            world.check_answer(row.at(3 - offset)).await;
        }
        world.check_answer(good("a transform", self.transformed(koala), None)).await;
        let row = invalid("a transform", self.transformed(baby), "NOT_CANONICAL", "input").at(3);
        world.check_answer(row).await;
        for field in [Field::Bls12381Fr, Field::Integers, Field::Gf2] {
            let row = invalid("another encoding", run(field, 0, false), RANGE, "inputs").at(0);
            world.check_answer(row).await;
        }
        let all = self.get(None, 0, 0);
        world.check_answer(good("all elements", all, bytes(&WORDS))).await;
        let last = self.get(None, 3, 1);
        world.check_answer(good("one element", last, bytes(&WORDS[3..]))).await;
        // An encoding is one of points: a vector is sent in its own.
        for encoding in [0, 1, ScalarEncoding::Canonical.into(), ScalarEncoding::Limbs32.into()] {
            let row = invalid("an encoding", self.get(Some(encoding), 0, 0), RANGE, "encoding");
            world.check_answer(row).await;
        }
    }

    async fn release(self, world: &World) {
        let id = Some(v1::release_request::Id::UploadId(self.id));
        Call::Release(v1::ReleaseRequest { id }).send(&world.channel).await.unwrap();
        world.assert_healthy("words").await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn uploaded_words_are_checked_in_the_field_of_each_call() {
    let world = World::new(settings()).await;
    for encoding in [ScalarEncoding::Canonical31, ScalarEncoding::Montgomery31] {
        let id = messages::id();
        let vector = messages::vector(&id, encoding, WORDS.len() as u64);
        let chunks = || vec![messages::chunk(0, bytes(&WORDS))];
        let put = async || Call::put_vector(vector.clone(), chunks()).send(&world.channel).await;
        retry_idle(put).await.unwrap();
        let words = StoredWords { id, encoding };
        words.check(&world).await;
        words.release(&world).await;
    }
}

/// The server computed them, over another field.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kept_words_are_checked_in_the_field_of_each_call() {
    let world = World::new(settings()).await;
    let (id, encoding) = (messages::id(), ScalarEncoding::Canonical31);
    let constant = v1::ConstantStep { field: Field::KoalaBear.into(), elements: bytes(&WORDS) };
    let keeping = |encoding: ScalarEncoding| {
        let kept = v1::KeepVector { upload_id: id.clone(), encoding: encoding.into() };
        let delivery = Some(v1::program_output::Delivery::Keep(kept));
        let steps = [v1::step::Operation::Constant(constant.clone())];
        run_call(call(steps, vec![], vec![v1::ProgramOutput { delivery, ..send(0) }]))
    };
    let row = invalid("kept as limbs", keeping(ScalarEncoding::Limbs32), RANGE, "outputs").at(0);
    world.check(row).await;
    keeping(encoding).send(&world.channel).await.unwrap();
    let words = StoredWords { id, encoding };
    words.check(&world).await;
    words.release(&world).await;
}
