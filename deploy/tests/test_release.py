import os
import re
import shutil
import subprocess

import pytest
from chart import CHART, DEPLOY

ROOT = DEPLOY.parent
DIGEST = f"sha256:{'5a' * 32}"


def run(*command, path=None):
    env = os.environ | ({"PATH": f"{path}:{os.environ['PATH']}"} if path else {})
    return subprocess.run(command, check=False, capture_output=True, text=True, env=env)


def copy(tree, *files):
    for file in files:
        to = tree / file.relative_to(ROOT)
        to.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, to)


def test_images_of_others_get_their_digests(tmp_path):
    dockerfile, values = DEPLOY / "Dockerfile", CHART / "values.yaml"
    copy(tmp_path, ROOT / "scripts/pin-images", dockerfile, values)
    docker = tmp_path / "docker"
    docker.write_text(f'#!/bin/sh\necho "$4" >>{tmp_path}/asked\necho {DIGEST}\n')
    docker.chmod(0o755)
    # Again: lines that have a digest get the new one.
    for _ in range(2):
        pinned = run(tmp_path / "scripts/pin-images", path=tmp_path)
        assert pinned.returncode == 0, pinned.stderr
    text = (tmp_path / "deploy/Dockerfile").read_text()
    images = re.findall(r"^ARG \w+_IMAGE=(.+)$", text, re.MULTILINE)
    assert len(images) == 2
    assert all(re.fullmatch(rf"[a-z:-]+@{DIGEST}", image) for image in images), images
    changed = (tmp_path / values.relative_to(ROOT)).read_text()
    old = values.read_text()
    [line] = [line for line in changed.splitlines() if line not in old.splitlines()] or [""]
    assert line == f"    digest: {DIGEST}"
    asked = set((tmp_path / "asked").read_text().split())
    assert asked == {image.split("@")[0] for image in images} | {"envoyproxy/envoy:v1.40.0"}


def test_no_digest_is_written_if_there_is_none(tmp_path):
    copy(tmp_path, ROOT / "scripts/pin-images", DEPLOY / "Dockerfile", CHART / "values.yaml")
    (tmp_path / "docker").write_text("#!/bin/sh\necho none\n")
    (tmp_path / "docker").chmod(0o755)
    assert run(tmp_path / "scripts/pin-images", path=tmp_path).returncode != 0
    unchanged = (tmp_path / "deploy/Dockerfile").read_text()
    assert unchanged == (DEPLOY / "Dockerfile").read_text()


@pytest.fixture(name="release")
def signed_release(tmp_path):
    """A folder of two files and a link, signed in a repository with one commit; the public key."""
    tree, folder = tmp_path / "tree", tmp_path / "release"
    copy(tree, ROOT / "scripts/sign-release")
    git = ("git", "-C", tree, "-c", "user.name=a", "-c", "user.email=a@example.org")
    for command in (("init", "-q"), ("add", "."), ("commit", "-qm", "A commit")):
        assert run(*git, *command).returncode == 0
    (folder / "chart").mkdir(parents=True)
    (folder / "capstand").write_text("a program")
    (folder / "chart/capstan.tgz").write_text("a chart")
    (tmp_path / "package").write_text("a package")
    (folder / "capstan.deb").symlink_to(tmp_path / "package")
    key, public = tmp_path / "key.pem", tmp_path / "public.pem"
    run("openssl", "genpkey", "-algorithm", "ed25519", "-out", key)
    run("openssl", "pkey", "-in", key, "-pubout", "-out", public)
    signed = run(tree / "scripts/sign-release", folder, key)
    assert signed.returncode == 0, signed.stderr
    return folder, public


def is_valid(release):
    return run(ROOT / "scripts/sign-release", "--check", *release).returncode == 0


def test_a_release_says_what_it_consists_of_and_is_signed(release):
    folder, _ = release
    assert is_valid(release)
    names = {line.split()[1] for line in (folder / "SHA256SUMS").read_text().splitlines()}
    files = {"capstand", "capstan.deb", "chart/capstan.tgz"}
    assert names == files | {"provenance.json"}
    statement = (folder / "provenance.json").read_text()
    assert set(re.findall(r'"name": "(.+)"', statement)) == files
    assert re.search(r'"gitCommit": "[0-9a-f]{40}"', statement)
    # The specification of SLSA requires URIs.
    assert all(re.search(rf'"{key}": "urn:[^"]+"', statement) for key in ("buildType", "id"))


@pytest.mark.parametrize("added", ["other", "chart/other", "chart/SHA256SUMS", ".hidden"])
def test_a_file_that_is_not_listed_is_found(release, added):
    (release[0] / added).write_text("another program")
    assert not is_valid(release)


@pytest.mark.parametrize("target", ["../key.pem", "nowhere"])
def test_a_link_that_is_not_listed_is_found(release, target):
    (release[0] / "link").symlink_to(target)
    assert not is_valid(release)


@pytest.mark.parametrize("changed", ["capstand", "provenance.json", "SHA256SUMS"])
def test_a_change_of_a_signed_release_is_found(release, changed):
    with (release[0] / changed).open("a") as file:
        file.write(" ")
    assert not is_valid(release)
