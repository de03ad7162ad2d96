module example.org/capstan-msm

go 1.24

require (
	github.com/cloudflare/circl v1.6.5
	google.golang.org/genproto/googleapis/rpc v0.0.0-20261110000943-09e21b237f2c
	google.golang.org/grpc v1.85.0
	google.golang.org/protobuf v1.36.12
)
