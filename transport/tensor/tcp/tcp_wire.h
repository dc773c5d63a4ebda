// Wire format of the tcp transport: the endpoint of a process, the offer handle that a holder gives
// to one receiver, and the request for a chunk. Chunks travel in frames of transport/bulk.
// Thread: any (values).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "transport/bulk/bulk_wire.h"
#include "transport/tensor/blob.h"
#include "transport/tensor/limits.h"
#include "transport/tensor/tensor_transport.h"

namespace mobula::internal {

struct TcpEndpoint {
  ProcessId process;
  std::string address;  // V4:PORT, [V6]:PORT or NAME:PORT

  Blob encode() const;
  static Result<TcpEndpoint> decode(std::span<const std::byte> bytes);
};

// Access token of one receiver in one epoch of the holder. The receiver names the first half in a
// request and proves possession with the second half.
struct TcpRight {
  BulkToken token{};
  std::optional<SealKey> key;  // nullopt: no encryption
  friend auto operator<=>(const TcpRight&, const TcpRight&) = default;
};

// Offer handle: the tokens and sizes with which the receiver requests the chunks of one transfer.
struct TcpTicket {
  DirectKind kind = DirectKind::tcp;  // `plugin` for plugin transports, which use the same requests
  ProcessId holder;
  ProcessId receiver;
  TransferId transfer;
  std::uint64_t epoch = 0;
  TcpRight right;
  DirectToken token;                 // token of the transfer
  std::vector<std::uint64_t> sizes;  // bytes of each region

  Blob encode() const;
  static Result<TcpTicket> decode(std::span<const std::byte> bytes, const DirectLimits& limits,
                                  DirectKind kind = DirectKind::tcp);
};

struct TcpChunk {
  std::uint64_t region = 0;
  std::uint64_t offset = 0;
  std::uint64_t size = 0;
};

// Request for one chunk.
struct TcpRequest {
  TransferId transfer;
  DirectToken token;
  TcpChunk chunk;

  Blob encode() const;
  static Result<TcpRequest> decode(std::span<const std::byte> bytes);
};

}  // namespace mobula::internal
