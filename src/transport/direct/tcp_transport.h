// Transfers over the network: several connections to each holder, each with a thread at both ends,
// chunks, AES-256-GCM unless both sides say that the fabric is trusted. See tensor_transport.h for
// what is promised, docs/decisions/0020-put-each-tensor-path-behind-one-transport-interface.md for why it is so.
#pragma once

#include <memory>
#include <string>

#include "device/near_gpu.h"
#include "transport/direct/lane_transport.h"

namespace mobula::internal {

struct TcpOptions {
  std::string listen = "127.0.0.1:0";  // where receivers connect
  std::string advertised_host;         // if it is not what is listened at
  std::size_t lanes = 0;               // 0: two, up to four on many cores
  std::uint64_t chunk_bytes = 4u << 20;
  CpuList cpus = {};  // where the lanes' threads run, as far as they may; empty: anywhere
  DirectLimits limits = {};
};

class TcpTransport final : public LaneTransport {
 public:
  static Availability probe() { return {true, "over TCP"}; }
  // May ask name servers. Fails with what listen_at() fails with.
  static Result<std::unique_ptr<TcpTransport>> create(EventLoop& loop, ProcessId process,
                                                      const TcpOptions& options = {});
  ~TcpTransport() override { end_lanes(); }

 private:
  using LaneTransport::LaneTransport;
  Result<std::string> address_in(std::span<const std::byte> endpoint,
                                 ProcessId expected) const override;
  Result<void> open_lanes(const TcpOptions& options);
};

}  // namespace mobula::internal
