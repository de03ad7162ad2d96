import json

import pytest
from circuits import CIRCUITS, DATA, Circuit

import capstan
from capstan import aio


@pytest.fixture(scope="module", params=CIRCUITS)
def circuit(request, daemon, tmp_path_factory):
    return Circuit(tmp_path_factory.mktemp("key"), daemon.target, request.param)


def test_proofs_are_accepted_by_the_verifier(plain, circuit):
    key = plain.groth16_key(circuit.description)
    proof = plain.groth16_prove(key, circuit.witness, verify="probabilistic")
    assert len(bytes(proof)) == 192
    assert circuit.accepts(proof, key.public_variables)
    again = plain.groth16_prove(key, circuit.witness)
    assert again != proof, "proofs are blinded"
    assert circuit.accepts(again, key.public_variables)
    wrong = circuit.witness.copy()
    wrong[-1, 0] ^= 1
    assert not circuit.accepts(plain.groth16_prove(key, wrong), key.public_variables)


async def test_the_asyncio_client_proves(daemon, circuit):
    async with aio.Client(daemon.target) as client:
        key = await client.groth16_key(circuit.description)
        proof = await client.groth16_prove(key, circuit.witness)
        assert circuit.accepts(proof, key.public_variables)


def test_wrong_assignments_are_refused(plain, circuit):
    key = plain.groth16_key(circuit.description)
    with pytest.raises(capstan.InvalidInput):
        plain.groth16_prove(key, circuit.witness[:-1])
    large = circuit.witness.copy()
    large[2] = 255
    with pytest.raises(capstan.InvalidInput) as refused:
        plain.groth16_prove(key, large)
    assert refused.value.index == 2
    assert "255" not in str(refused.value)
    no_one = circuit.witness.copy()
    no_one[0, 0] = 2
    with pytest.raises(capstan.InvalidInput) as refused:
        plain.groth16_prove(key, no_one)
    assert refused.value.index == 0


def test_bad_files_are_refused(plain, circuit, tmp_path):
    good = json.loads(circuit.description.read_text())
    bad = [
        "[]",
        "{",
        json.dumps({**good, "format": 1}),
        json.dumps({**good, "points": {}}),
        json.dumps({**good, "objects": {**good["objects"], "a": "00"}}),
        # Proofs would not be blinded.
        json.dumps({**good, "points": {**good["points"], "delta_g1": "c0" + 47 * "00"}}),
    ]
    for text in bad:
        (tmp_path / "key.json").write_text(text)
        with pytest.raises(capstan.InvalidInput):
            plain.groth16_key(tmp_path / "key.json")
    unknown = {**good, "objects": {**good["objects"], "a": "07" * 32}}
    (tmp_path / "key.json").write_text(json.dumps(unknown))
    with pytest.raises(capstan.NotFound):
        plain.groth16_key(tmp_path / "key.json")


@pytest.mark.parametrize(
    "verdict",
    json.loads((DATA / "wtns_verdicts.json").read_text()),
    ids=lambda verdict: verdict["file"],
)
def test_witnesses_get_the_verdicts_of_the_command_line(verdict, tmp_path):
    path = tmp_path / "file.wtns"
    path.write_bytes(bytes.fromhex(verdict["hex"]))
    if verdict["refused"] is None:
        assert capstan.read_wtns(path).tobytes()[::32] in (b"", b"\1\x31\7")
        return
    with pytest.raises(capstan.InvalidInput) as refused:
        capstan.read_wtns(path)
    assert str(refused.value) == "path: " + verdict["refused"]


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"zkey\1\0\0\0", "it is not JSON"),
        (b'{"protocol": "groth16", "pi_a": []}', "it is JSON without the key 'format'"),
    ],
)
def test_a_file_in_the_place_of_a_description_is_named(plain, tmp_path, content, problem):
    (tmp_path / "key").write_bytes(content)
    with pytest.raises(capstan.InvalidInput) as refused:
        plain.groth16_key(tmp_path / "key")
    assert str(refused.value).endswith(problem)
