//! Loading of modules and typed kernels, and timed events.

use capstan::device::{Block, Fault, Module, Parameters, Ptr, Unusable};

use crate::rig::Rig;

type Words = (u32, Ptr<u32>, Ptr<u32>, Ptr<u32>, Ptr<u32>, Ptr<u32>);

fn refused<P: Parameters>(module: &Module, name: &str, block: Block) -> String {
    match module.kernel::<P>(name, block) {
        Err(Fault::KernelMismatch { kernel, problem }) => {
            assert_eq!(kernel, name);
            problem
        }
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("{name} was loaded"),
    }
}

#[test]
fn mismatched_kernels_are_refused_at_load() {
    let rig = Rig::new();
    let context = rig.gpu.context();
    let Err(Unusable::Device { fault, .. }) = Module::load(context, "no/such") else {
        panic!("a module that does not exist was loaded")
    };
    assert!(matches!(fault, Fault::KernelMismatch { .. }), "{fault}");
    let module = Module::load(context, "selftest").unwrap();
    module.kernel::<Words>("selftest_words", Block::of(128)).unwrap();
    refused::<Words>(&module, "no_such", Block::of(128));
    refused::<Words>(&module, "selftest\0words", Block::of(128));
    // A kernel of another module.
    refused::<Words>(&module, "g1_check_points", Block::of(128));
    for threads in [0, 129, 2048] {
        let problem = refused::<Words>(&module, "selftest_words", Block::of(threads));
        assert!(problem.contains("threads"), "{problem}");
    }
    let block = Block { threads: 128, shared_bytes: 1 << 20 };
    let problem = refused::<Words>(&module, "selftest_words", block);
    assert!(problem.contains("shared memory"), "{problem}");
    let problem = refused::<(u32, Ptr<u32>)>(&module, "selftest_words", Block::of(128));
    assert!(problem.contains("parameters"), "{problem}");
    assert!(context.is_alive());
}

#[test]
fn timed_events_measure_the_work_between_them() {
    let rig = Rig::new();
    let stream = rig.stream();
    let begun = stream.record_timed().unwrap();
    let lease = rig.put(&stream, &vec![7; 1 << 20]);
    let ended = stream.record_timed().unwrap();
    ended.synchronize().unwrap();
    assert!(begun.is_reached().unwrap() && ended.is_reached().unwrap());
    // A missing measurement would give zero.
    assert!(ended.since(&begun).unwrap().as_nanos() > 0);
    drop(lease);
}
