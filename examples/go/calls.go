package main

import (
	"context"
	"errors"
	"io"

	pb "example.org/capstan-msm/capstanpb"
)

const (
	pointEncoding = pb.PointEncoding_POINT_ENCODING_UNCOMPRESSED
	pointBytes    = 96
	scalarBytes   = 32
)

// putBases stores points of G1.
func putBases(ctx context.Context, store pb.StoreClient, points []byte) (*pb.Bases, error) {
	id, err := newUploadID()
	if err != nil {
		return nil, err
	}
	stream, err := store.Put(ctx)
	if err != nil {
		return nil, err
	}
	header := &pb.PutRequest{Message: &pb.PutRequest_Bases{Bases: &pb.BasesUpload{
		UploadId: id,
		Group:    pb.Group_GROUP_G1,
		Encoding: pointEncoding,
		Count:    uint64(len(points) / pointBytes),
	}}}
	err = upload(stream.Send, header, points, func(chunk *pb.Chunk) *pb.PutRequest {
		return &pb.PutRequest{Message: &pb.PutRequest_Chunk{Chunk: chunk}}
	})
	if err != nil {
		return nil, err
	}
	response, err := stream.CloseAndRecv()
	return response.GetObject().GetBases(), err
}

// getBases reads stored points; the server sends them in chunks, in order.
func getBases(ctx context.Context, store pb.StoreClient, objectID []byte) ([]byte, error) {
	encoding := pointEncoding
	stream, err := store.Get(ctx, &pb.GetRequest{
		Id:       &pb.GetRequest_ObjectId{ObjectId: objectID},
		Encoding: &encoding,
	})
	if err != nil {
		return nil, err
	}
	var points []byte
	for {
		response, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return points, nil
		}
		if err != nil {
			return nil, err
		}
		points = append(points, response.Chunk.Data...)
	}
}

// msm returns the sum of the products of scalars and stored points of G1, which the server computes
// twice, by two libraries.
func msm(
	ctx context.Context, compute pb.ComputeClient, objectID, scalars []byte,
) (*pb.MsmResult, error) {
	id, err := newUploadID()
	if err != nil {
		return nil, err
	}
	stream, err := compute.MsmStream(ctx)
	if err != nil {
		return nil, err
	}
	spec := &pb.MsmSpec{
		Group:          pb.Group_GROUP_G1,
		Bases:          &pb.MsmSpec_Stored{Stored: &pb.StoredBases{ObjectId: objectID}},
		ResultEncoding: pb.ResultEncoding_RESULT_ENCODING_COMPRESSED,
		Verify:         pb.Verify_VERIFY_FULL,
	}
	vector := &pb.VectorUpload{
		UploadId: id,
		Encoding: pb.ScalarEncoding_SCALAR_ENCODING_CANONICAL,
		Count:    uint64(len(scalars) / scalarBytes),
	}
	header := &pb.MsmStreamRequest{Message: &pb.MsmStreamRequest_Header{
		Header: &pb.MsmStreamHeader{Spec: spec, Scalars: vector},
	}}
	err = upload(stream.Send, header, scalars, func(chunk *pb.Chunk) *pb.MsmStreamRequest {
		return &pb.MsmStreamRequest{Message: &pb.MsmStreamRequest_Chunk{Chunk: chunk}}
	})
	if err != nil {
		return nil, err
	}
	response, err := stream.CloseAndRecv()
	return response.GetResult(), err
}
