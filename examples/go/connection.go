package main

import (
	"context"
	"fmt"
	"strings"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/local"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// connect returns a connection to http://host:port, https://host:port or unix:/path. Without TLS,
// it reaches servers on this host only, so no token is sent in plain text to another host.
func connect(target string) (*grpc.ClientConn, error) {
	security := local.NewCredentials()
	if strings.HasPrefix(target, "https://") {
		security = credentials.NewTLS(nil)
	}
	address := strings.TrimPrefix(strings.TrimPrefix(target, "https://"), "http://")
	// Since version 1.63, grpc.NewClient does the same.
	return grpc.Dial(address, grpc.WithTransportCredentials(security))
}

// withToken returns a context whose calls send the token, if it is not empty.
func withToken(ctx context.Context, token string) context.Context {
	if token == "" {
		return ctx
	}
	return metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+token)
}

// describe returns an error in one line: status, message and, if the server sent it, Capstan's
// reason.
func describe(err error) string {
	failed, isStatus := status.FromError(err)
	if !isStatus {
		return err.Error()
	}
	text := fmt.Sprintf("%s: %s", failed.Code(), failed.Message())
	for _, detail := range failed.Details() {
		if info, isInfo := detail.(*errdetails.ErrorInfo); isInfo {
			text += fmt.Sprintf(" (%s)", info.Reason)
		}
	}
	return text
}
