// Transfers over the network: several connections to each holder, each with a thread at both ends.
// AES-256-GCM encrypts the chunks unless both sides declare the fabric trusted. Reasons: decision
// 20.
// Thread: the event loop. See tensor_transport.h for the guarantees.
#pragma once

#include <memory>
#include <string>

#include "device/near_gpu.h"
#include "transport/tensor/lane_transport.h"

namespace mobula::internal {

struct TcpOptions {
  std::string listen = "127.0.0.1:0";  // listen address for receivers
  std::string advertised_host;         // if it differs from the listen address
  std::size_t lanes = 0;               // 0: two, up to four on many cores
  std::uint64_t chunk_bytes = 4u << 20;
  CpuList cpus = {};  // preferred CPUs of the lanes; empty: any
  DirectLimits limits = {};
};

class TcpTransport final : public LaneTransport {
 public:
  static Availability probe() { return {true, "over TCP"}; }
  // May query name servers. Fails with an error of listen_at().
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
