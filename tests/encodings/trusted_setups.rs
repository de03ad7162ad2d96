//! KZG trusted setups as JSON and text.

use capstan::formats::{
    PointSet,
    kzg::{SetupList, parse_json, parse_text},
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

#[test]
fn refuses_a_wrong_number_of_lines() {
    let message = |text: &str| parse_text(text).unwrap_err().to_string();
    assert!(message("").contains("expected the number of G1 points"));
    assert!(message("1\n1\n97").contains("3 lines must follow, not 1"));
    assert!(message("99999999999\n1\n").contains("expected the number of G1 points"));
    assert_eq!(message("1\n0\n97"), "g1_lagrange[0]: expected 96 hex digits");
}
