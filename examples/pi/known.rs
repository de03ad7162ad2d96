//! Digits of pi that others have computed.

/// The digits before a decimal place.
struct KnownDigits {
    places: u64,
    last: &'static str,
}

/// The 50 digits before a place. GMP computed all of them by the same series, and MPFR 4.2.2 by
/// another method, the arithmetic-geometric mean. Published files of digits by y-cruncher end with
/// those before 10^6 and 10^8, and the last ten before 10^7 are published, too; we know of no
/// published ones before 3 * 10^8.
const KNOWN: &[KnownDigits] = &[
    KnownDigits { places: 1_000, last: "18577805321712268066130019278766111959092164201989" },
    KnownDigits { places: 100_000, last: "70150789337728658035712790913767420805655493624646" },
    KnownDigits { places: 1_000_000, last: "56787961303311646283996346460422090106105779458151" },
    KnownDigits { places: 10_000_000, last: "65326553194060999469787333810631719481735348955897" },
    KnownDigits { places: 100_000_000, last: "75722031752074898161168313937514970581120187751592" },
    KnownDigits { places: 300_000_000, last: "53911175293184225209793572923746957648307240885708" },
];

/// The largest number of places up to which the digits can be compared, and whether they are equal.
pub struct Comparison {
    pub places: u64,
    pub is_equal: bool,
}

/// Compares digits with all known ones among them. `None` if they are too few.
pub fn compare(digits: &str) -> Option<Comparison> {
    let known = KNOWN.iter().filter(|known| known.places <= digits.len() as u64);
    let places = known.clone().map(|known| known.places).max()?;
    let is_equal = known.clone().all(|known| digits[..known.places as usize].ends_with(known.last));
    Some(Comparison { places, is_equal })
}
