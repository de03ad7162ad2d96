package main

import (
	"crypto/rand"
	"errors"
	"io"

	pb "example.org/capstan-msm/capstanpb"
)

// Small, so that these small payloads have several chunks. 256 KiB is fast, and a chunk has at most
// limits.message_payload_bytes of Admin.GetInfo.
const chunkBytes = 32 * 1024

// upload sends a header, then the payload in chunks. io.EOF means that the server has answered or
// refused before the end: receive the answer.
func upload[M any](send func(M) error, header M, payload []byte, wrap func(*pb.Chunk) M) error {
	err := send(header)
	for at := 0; at < len(payload) && err == nil; at += chunkBytes {
		end := at + chunkBytes
		if end > len(payload) {
			end = len(payload)
		}
		err = send(wrap(&pb.Chunk{Offset: uint64(at), Data: payload[at:end]}))
	}
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// newUploadID returns 16 random bytes: they name an upload from its first message on.
func newUploadID() ([]byte, error) {
	id := make([]byte, 16)
	_, err := rand.Read(id)
	return id, err
}
