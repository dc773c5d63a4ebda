#include "transport/tensor/tcp/tcp_transport.h"

#include <fmt/format.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "transport/net/address.h"
#include "transport/tensor/tcp/tcp_lane.h"

namespace mobula::internal {

Result<std::unique_ptr<TcpTransport>> TcpTransport::create(EventLoop& loop, ProcessId process,
                                                           const TcpOptions& options) {
  LaneTransportOptions with;
  with.name = "tcp";
  with.cost = {100us, 1e9};
  with.stages = true;
  with.chunk_bytes = options.chunk_bytes;
  with.limits = options.limits;
  std::unique_ptr<TcpTransport> made(new TcpTransport(loop, process, with));
  if (auto opened = made->open_lanes(options); !opened) return opened.error();
  return made;
}

Result<void> TcpTransport::open_lanes(const TcpOptions& options) {
  const std::size_t count =
      options.lanes > 0 ? options.lanes
                        : std::clamp<std::size_t>(std::thread::hardware_concurrency() / 4, 2, 4);
  // The first lane listens and distributes the connections to all lanes in round-robin order.
  const auto turns = std::make_shared<std::pair<std::size_t, std::vector<TcpLane*>>>();
  const auto hand_over = [turns](Fd& socket) {
    auto& [turn, all] = *turns;
    turn = (turn + 1) % all.size();
    if (turn == 0) return false;
    all[turn]->adopt(std::move(socket));
    return true;
  };
  for (std::size_t i = 0; i < count; ++i) {
    auto lane = TcpLane::start(offers_, i == 0 ? std::function<bool(Fd&)>(hand_over) : nullptr,
                               options.cpus);
    if (!lane) return lane.error();
    turns->second.push_back(lane->get());
    lanes_.push_back(std::move(lane).value());
  }
  const auto bound = turns->second.front()->listen(options.listen);
  if (!bound) return bound.error();
  std::string address = *bound;
  if (!options.advertised_host.empty()) {
    const auto parsed = Address::parse(*bound);
    if (!parsed) return parsed.error();
    address = fmt::format("{}:{}", options.advertised_host, parsed->port());
  }
  endpoint_ = TcpEndpoint{process(), address}.encode();
  return {};
}

Result<std::string> TcpTransport::address_in(std::span<const std::byte> endpoint,
                                             ProcessId expected) const {
  auto there = TcpEndpoint::decode(endpoint);
  if (!there) return there.error();
  if (there->process != expected) {
    return failure(ErrorCode::invalid_argument, "tcp: the endpoint of another process");
  }
  return std::move(there->address);
}

}  // namespace mobula::internal
