// Sums points on a Capstan server, and compares the sum with that of circl:
//
//	go run . http://127.0.0.1:7654
package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/cloudflare/circl/ecc/bls12381"

	pb "example.org/capstan-msm/capstanpb"
)

const count = 2048

func main() {
	target := "http://127.0.0.1:7654"
	if len(os.Args) > 1 {
		target = os.Args[1]
	}
	if err := run(target, os.Getenv("CAPSTAN_TOKEN")); err != nil {
		fmt.Fprintln(os.Stderr, "error:", describe(err))
		os.Exit(1)
	}
}

func run(target, token string) error {
	connection, err := connect(target)
	if err != nil {
		return err
	}
	defer connection.Close()
	ctx, cancel := context.WithTimeout(withToken(context.Background(), token), time.Minute)
	defer cancel()
	store := pb.NewStoreClient(connection)

	info, err := pb.NewAdminClient(connection).GetInfo(ctx, &pb.GetInfoRequest{})
	if err != nil {
		return err
	}
	fmt.Printf("server: Capstan %s, engine %s, which knows this caller as %s\n",
		info.Version, info.Engine, info.Caller.Subject)

	// The server checks each point, and names all of them by their hash.
	points, encoded := multiplesOfG()
	bases, err := putBases(ctx, store, encoded)
	if err != nil {
		return err
	}
	fmt.Printf("bases:  %x, %d points\n", bases.ObjectId, bases.Count)
	received, err := getBases(ctx, store, bases.ObjectId)
	if err != nil {
		return err
	}
	if !bytes.Equal(received, encoded) {
		return errors.New("the server returned other points")
	}

	scalars, encoded, err := randomScalars()
	if err != nil {
		return err
	}
	result, err := msm(ctx, pb.NewComputeClient(connection), bases.ObjectId, encoded)
	if err != nil {
		return err
	}
	fmt.Printf("sum:    %x, by %s in %d us, check: %s\n",
		result.Points, result.Execution.Device, result.Timing.ComputeUs, result.Execution.Verified)

	var expected, term bls12381.G1
	expected.SetIdentity()
	for i := range points {
		term.ScalarMult(&scalars[i], &points[i])
		expected.Add(&expected, &term)
	}
	if !bytes.Equal(result.Points, expected.BytesCompressed()) {
		return fmt.Errorf("circl computes another sum: %x", expected.BytesCompressed())
	}
	fmt.Println("equal to the sum of circl")
	return nil
}

// multiplesOfG returns G, 2 G, 3 G, ..., and their encodings.
func multiplesOfG() (points []bls12381.G1, encoded []byte) {
	points = make([]bls12381.G1, count)
	points[0] = *bls12381.G1Generator()
	for i := range points {
		if i > 0 {
			points[i].Add(&points[i-1], &points[0])
		}
		encoded = append(encoded, points[i].Bytes()...)
	}
	return points, encoded
}

// randomScalars returns scalars and their encodings, which are little-endian; those of circl are
// big-endian.
func randomScalars() (scalars []bls12381.Scalar, encoded []byte, err error) {
	scalars = make([]bls12381.Scalar, count)
	for i := range scalars {
		if err := scalars[i].Random(rand.Reader); err != nil {
			return nil, nil, err
		}
		bigEndian, err := scalars[i].MarshalBinary()
		if err != nil {
			return nil, nil, err
		}
		for at := range bigEndian {
			encoded = append(encoded, bigEndian[len(bigEndian)-1-at])
		}
	}
	return scalars, encoded, nil
}
