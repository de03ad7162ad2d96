//! KZG trusted setups as JSON and text.

use ark_ec::CurveGroup;
use ark_ff::{FftField, Field, One};
use capstan::{
    curve::{
        Fr, G1Affine, G2Affine,
        points::{CurvePoint, PointEncoding, encode},
    },
    formats::{
        PointSet,
        kzg::{SetupList, parse_json, parse_text},
    },
};

const CEREMONY: &[u8] = include_bytes!("../data/trusted_setup_4096.json");

fn as_text(sets: &[PointSet], order: &[SetupList]) -> String {
    let mut text = String::from("4096\n65\n");
    for set in order {
        let points = sets.iter().find(|points| points.list == Some(*set)).unwrap();
        for point in points.data.chunks(points.encoding.point_bytes(points.group)) {
            text += &hex::encode(point);
            text.push('\n');
        }
    }
    text
}

#[test]
fn reads_the_setup_of_the_ceremony() {
    let sets = parse_json(CEREMONY).unwrap();
    let shape: Vec<_> = sets.iter().map(|set| (set.list, set.count())).collect();
    assert_eq!(
        shape,
        [
            (Some(SetupList::G1Monomial), 4096),
            (Some(SetupList::G1Lagrange), 4096),
            (Some(SetupList::G2Monomial), 65),
        ]
    );
    // tau^0 is the generator.
    let generator = "97f1d3a73197d7942695638c4fa9ac0fc3688c4f9774b905a14e3a3f171bac58\
                     6c55e83ff97a1aeffb3af00adb22c6bb";
    assert_eq!(hex::encode(&sets[0].data[..48]), generator);
}

#[test]
fn text_and_json_have_the_same_points() {
    let json = parse_json(CEREMONY).unwrap();
    let order = [SetupList::G1Lagrange, SetupList::G2Monomial, SetupList::G1Monomial];
    let text = parse_text(&as_text(&json, &order)).unwrap();
    assert_eq!(text.len(), 3);
    assert!(text.iter().all(|set| json.contains(set)));
    // Files from before EIP-7594 end after the G2 points.
    let old = parse_text(&as_text(&json, &order[..2])).unwrap();
    assert_eq!(old, text[..2]);
}

#[test]
fn c_kzg_reads_the_same_points_from_the_text() {
    let json = parse_json(CEREMONY).unwrap();
    let order = [SetupList::G1Lagrange, SetupList::G2Monomial, SetupList::G1Monomial];
    let settings = c_kzg::KzgSettings::parse_kzg_trusted_setup(&as_text(&json, &order), 0).unwrap();
    let blob = c_kzg::Blob::from_bytes(&[7; c_kzg::BYTES_PER_BLOB]).unwrap();
    let ours = settings.blob_to_kzg_commitment(&blob).unwrap();
    let theirs = c_kzg::ethereum_kzg_settings(0).blob_to_kzg_commitment(&blob).unwrap();
    assert_eq!(ours.to_bytes(), theirs.to_bytes());
}

#[test]
fn errors_name_the_list_and_the_index() {
    let message = |text: &str| parse_json(text.as_bytes()).unwrap_err().to_string();
    let good = "97".repeat(48);
    let json = |second: &str| format!(r#"{{"g1_lagrange": ["0x{good}", "{second}"]}}"#);
    let expected = "g1_lagrange[1]: expected 96 hex digits";
    assert_eq!(message(&json("0x97")), expected);
    assert_eq!(message(&json(&"zz".repeat(48))), expected);
    assert_eq!(message("{}"), "the file has no points");
    assert!(message("{").starts_with("not a KZG trusted setup: EOF"));
}

/// Multiples of the generator, in hex.
fn hex_points<A: CurvePoint>(scalars: &[Fr]) -> Vec<String> {
    let point = |scalar: &Fr| {
        let point = (A::generator() * scalar).into_affine();
        hex::encode(encode(PointEncoding::Compressed, &[point]))
    };
    scalars.iter().map(point).collect()
}

/// The lists of a setup of 8 points, in the order of their names in [`SetupList::ALL`].
fn setup(tau: u64) -> [Vec<String>; 3] {
    let tau = Fr::from(tau);
    let powers: Vec<_> = (0..8).map(|exponent| tau.pow([exponent])).collect();
    // L_i(tau) = root^i (tau^8 - 1) / (8 (tau - root^i)).
    let root = Fr::get_root_of_unity(8).unwrap();
    let lagrange = (0..8).map(|index| {
        let node = root.pow([index]);
        node * (tau.pow([8]) - Fr::one()) / (Fr::from(8) * (tau - node))
    });
    let lagrange: Vec<_> = lagrange.collect();
    [
        hex_points::<G1Affine>(&powers),
        hex_points::<G1Affine>(&lagrange),
        hex_points::<G2Affine>(&powers[..3]),
    ]
}

fn as_json(lists: &[Vec<String>; 3]) -> String {
    let list = |(list, points): (SetupList, &Vec<String>)| format!("\"{list}\": {points:?}");
    let lists: Vec<_> = SetupList::ALL.into_iter().zip(lists).map(list).collect();
    format!("{{{}}}", lists.join(", "))
}

#[test]
fn lists_that_are_not_what_their_names_say_are_refused() {
    let read = |change: fn(&mut [Vec<String>; 3])| {
        let mut lists = setup(77);
        change(&mut lists);
        let [monomial, lagrange, g2] = &lists;
        let text = format!(
            "8\n{}\n{}\n",
            g2.len(),
            [lagrange, g2, monomial].map(|l| l.join("\n")).join("\n")
        );
        let json = parse_json(as_json(&lists).as_bytes()).err().map(|error| error.to_string());
        // All lists of the text have their full length, or it is another text.
        if lists.each_ref().map(Vec::len) == [8, 8, 3] {
            assert_eq!(parse_text(&text).err().map(|error| error.to_string()), json);
        }
        json.unwrap_or("read".to_owned())
    };
    assert_eq!(read(|_| {}), "read");
    let sum = "g1_lagrange: its points do not sum to the generator, as Lagrange points do";
    assert_eq!(read(|lists| lists[1] = lists[0].clone()), sum);
    assert_eq!(read(|lists| lists[1][3] = lists[1][2].clone()), sum);
    let first = "its first point is not the generator, as that of powers of tau is";
    assert_eq!(read(|lists| lists[0] = lists[1].clone()), format!("g1_monomial: {first}"));
    assert_eq!(read(|lists| lists[2].reverse()), format!("g2_monomial: {first}"));
    let tau = "it has another tau than the other lists, or is not in natural order";
    assert_eq!(read(|lists| lists[1].swap(1, 4)), format!("g1_lagrange: {tau}"));
    assert_eq!(read(|lists| lists[1] = setup(78)[1].clone()), format!("g1_lagrange: {tau}"));
    let without_g1 = |lists: &mut [Vec<String>; 3]| {
        lists[0].clear();
        lists[2] = setup(78)[2].clone();
    };
    assert_eq!(read(without_g1), format!("g1_lagrange: {tau}"));
    let other = "g2_monomial: it has another tau than g1_monomial";
    assert_eq!(read(|lists| lists[2] = setup(78)[2].clone()), other);
    let length = "g1_lagrange: its length is not a power of two";
    assert_eq!(read(|lists| lists[1].truncate(7)), length);
    // The field has a root of unity of this order.
    assert_eq!(read(|lists| lists[1].truncate(6)), length);
    // Lists alone, as far as they show something.
    for kept in 0..3 {
        let mut lists = <[Vec<String>; 3]>::default();
        lists[kept] = setup(77)[kept].clone();
        assert_eq!(parse_json(as_json(&lists).as_bytes()).unwrap().len(), 1);
    }
    // The server refuses invalid points with their index.
    let invalid = |lists: &mut [Vec<String>; 3]| lists[1][5].replace_range(2..4, "00");
    assert_eq!(read(invalid), "read");
}

#[test]
fn unknown_keys_of_a_trusted_setup_are_named() {
    let [monomial, ..] = setup(77);
    let json = format!("{{\"g1_monomial\": {monomial:?}, \"g1_lagrnage\": []}}");
    let refused = parse_json(json.as_bytes()).unwrap_err().to_string();
    assert!(refused.contains("unknown field `g1_lagrnage`, expected one of `g1_mono"), "{refused}");
}

#[test]
fn refuses_a_wrong_number_of_lines() {
    let message = |text: &str| parse_text(text).unwrap_err().to_string();
    assert!(message("").contains("expected the number of G1 points"));
    assert!(message("1\n1\n97").contains("3 lines must follow, not 1"));
    assert!(message("99999999999\n1\n").contains("expected the number of G1 points"));
    assert_eq!(message("1\n0\n97"), "g1_lagrange[0]: expected 96 hex digits");
}
