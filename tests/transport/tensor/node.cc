#include "transport/tensor/node.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "transport/local/local_frame.h"
#include "transport/local/local_link.h"
#include "transport/tensor/lossy_network.h"
#include "transport/tensor/node_process.h"

namespace mobula::internal::direct_test {
namespace {

constexpr Duration wait_timeout = 60s;

BlobWriter command(NodeCommand what) {
  BlobWriter writer;
  writer.byte(static_cast<std::uint8_t>(what));
  return writer;
}

void put_blob(BlobWriter& to, const Blob& blob) { to.number(blob.size()).raw(blob); }

void put_specs(BlobWriter& to, const std::vector<RegionSpec>& regions) {
  to.number(regions.size());
  for (const RegionSpec& each : regions) {
    to.number(each.size).number(each.seed).number(each.offset).byte(each.in_file ? 1 : 0);
  }
}

Result<void> take_result(BlobReader& from) {
  const bool ok = from.byte() != 0;
  const auto code = static_cast<ErrorCode>(from.byte());
  std::string text = from.text(1u << 16);
  if (ok) return {};
  return failure(code, std::move(text));
}

Seen take_seen(BlobReader from) {
  Seen seen;
  const auto result = take_result(from);
  seen.ok = result.ok();
  if (!result) {
    seen.code = result.error().code;
    seen.text = result.error().text;
  }
  seen.peer_lost = from.byte() != 0;
  seen.bytes = from.number();
  seen.right = from.byte() != 0;
  seen.guards = from.byte() != 0;
  seen.poison = from.byte() != 0;
  seen.sum = from.number();
  seen.encrypted = from.byte() != 0;
  return seen;
}

}  // namespace

const char* name_of(Way way) {
  switch (way) {
    case Way::inproc: return "inproc";
    case Way::shm: return "shm";
    case Way::tcp: return "tcp";
    case Way::carried: return "carried";
    case Way::gloo: return "gloo";
    case Way::ucx: return "ucx";
    case Way::nixl: return "nixl";
    case Way::cuda_ipc: return "cuda_ipc_simulated";
    case Way::nccl: return "nccl_simulated";
  }
  return "?";
}

std::string plugin_of(Way way) {
  return std::string(MOBULA_BINARY_DIR "/lib/mobula/mobula_transport_") + name_of(way) + ".so";
}

Node::Node(const NodeOptions& options) : process_(ProcessId::random()) {
  auto pair = make_local_pair();
  Fd theirs = std::move(pair.value().second);
  socket_ = std::move(pair.value().first);
  pid_ = ::fork();
  if (pid_ == 0) {
    socket_.reset();
    if (options.on_host) LossyNetwork::see_own_devices();
    run_node(std::move(theirs), process_, options);
    ::_exit(0);
  }
  theirs.reset();
  const Blob answer = receive();
  BlobReader from(answer);
  const auto started = take_result(from);
  EXPECT_TRUE(started) << (started ? "" : started.error().text);
  const auto endpoint = from.raw(from.left());
  endpoint_.assign(endpoint.begin(), endpoint.end());
}

Node::~Node() { kill(); }

void Node::kill() {
  if (pid_ <= 0) return;
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
  pid_ = -1;
}

void Node::signal(int number) {
  ::kill(pid_, number);
  if (number != SIGSTOP) return;
  int status = 0;
  ::waitpid(pid_, &status, WUNTRACED);
}

void Node::send(const BlobWriter& what) {
  const auto sent = send_frame(socket_, what.bytes(), {}, monotonic_now() + wait_timeout);
  ASSERT_TRUE(sent) << sent.error().text;
}

Blob Node::receive() {
  auto frame = receive_frame(socket_, monotonic_now() + wait_timeout);
  EXPECT_TRUE(frame) << "a node does not reply: " << (frame ? "" : frame.error().text);
  return frame ? std::move(frame->bytes) : Blob();
}

Blob Node::call(const BlobWriter& what) {
  send(what);
  return receive();
}

Result<void> Node::open(const Node& peer, std::uint64_t epoch, std::uint64_t deadline_ms) {
  return open(peer.process(), peer.endpoint(), epoch, deadline_ms);
}

Result<void> Node::open(ProcessId peer, const Blob& endpoint, std::uint64_t epoch,
                        std::uint64_t deadline_ms) {
  BlobWriter to = command(NodeCommand::open);
  to.id(peer).number(epoch).number(deadline_ms);
  put_blob(to, endpoint);
  send(to);
  return opened();
}

void Node::begin_open(const Node& peer, std::uint64_t epoch, std::uint64_t deadline_ms) {
  BlobWriter to = command(NodeCommand::open);
  to.id(peer.process()).number(epoch).number(deadline_ms);
  put_blob(to, peer.endpoint());
  send(to);
}

Result<void> Node::opened() {
  const Blob answer = receive();
  BlobReader from(answer);
  return take_result(from);
}

void Node::serve(TransferId transfer, const Node& to_node, std::uint64_t epoch) {
  BlobWriter to = command(NodeCommand::serve);
  call(to.id(transfer).id(to_node.process()).number(epoch));
}

void Node::close(const Node& peer, std::uint64_t epoch) {
  BlobWriter to = command(NodeCommand::close);
  call(to.id(peer.process()).number(epoch));
}

Result<Blob> Node::offer(TransferId transfer, const Node& to_node, std::uint64_t epoch,
                         const std::vector<RegionSpec>& regions, bool copy) {
  BlobWriter to = command(NodeCommand::offer);
  to.id(transfer).id(to_node.process()).number(epoch).byte(copy ? 1 : 0);
  put_blob(to, to_node.endpoint());
  put_specs(to, regions);
  const Blob answer = call(to);
  BlobReader from(answer);
  const auto result = take_result(from);
  if (!result) return result.error();
  const auto ticket = from.raw(from.left());
  return Blob(ticket.begin(), ticket.end());
}

void Node::release(TransferId transfer) {
  BlobWriter to = command(NodeCommand::release);
  call(to.id(transfer));
}

void Node::pull(TransferId transfer, const Node& from, std::uint64_t epoch, const Blob& ticket,
                const std::vector<RegionSpec>& regions, std::uint64_t silence_ms) {
  BlobWriter to = command(NodeCommand::pull);
  to.id(transfer).id(from.process()).number(epoch).number(silence_ms);
  put_blob(to, ticket);
  put_specs(to, regions);
  call(to);
}

Seen Node::seen(TransferId transfer) {
  BlobWriter to = command(NodeCommand::seen);
  return take_seen(BlobReader(call(to.id(transfer))));
}

Seen Node::inspect(TransferId transfer) {
  BlobWriter to = command(NodeCommand::inspect);
  return take_seen(BlobReader(call(to.id(transfer))));
}

void Node::drop(TransferId transfer) {
  BlobWriter to = command(NodeCommand::drop);
  call(to.id(transfer));
}

Seen Node::cancel(TransferId transfer) {
  BlobWriter to = command(NodeCommand::cancel);
  return take_seen(BlobReader(call(to.id(transfer))));
}

void Node::cancel_after(TransferId transfer, std::uint64_t delay_us) {
  BlobWriter to = command(NodeCommand::cancel_after);
  call(to.id(transfer).number(delay_us));
}

Seen Node::map(TransferId transfer, const Node& from, std::uint64_t epoch, const Blob& ticket,
               const std::vector<RegionSpec>& regions) {
  BlobWriter to = command(NodeCommand::map);
  to.id(transfer).id(from.process()).number(epoch);
  put_blob(to, ticket);
  put_specs(to, regions);
  return take_seen(BlobReader(call(to)));
}

bool Node::still_offered(TransferId transfer) {
  BlobWriter to = command(NodeCommand::still_offered);
  const Blob answer = call(to.id(transfer));
  return BlobReader(answer).byte() != 0;
}

Result<void> Node::reach(const Node& peer, MemoryKind source) {
  BlobWriter to = command(NodeCommand::reach);
  to.id(peer.process()).byte(static_cast<std::uint8_t>(source));
  put_blob(to, peer.endpoint());
  const Blob answer = call(to);
  BlobReader from(answer);
  return take_result(from);
}

Result<void> Node::reach(ProcessId peer, const Blob& endpoint) {
  BlobWriter to = command(NodeCommand::reach);
  to.id(peer).byte(static_cast<std::uint8_t>(MemoryKind::host));
  put_blob(to, endpoint);
  const Blob answer = call(to);
  BlobReader from(answer);
  return take_result(from);
}

void Node::peer_down(ProcessId peer) {
  BlobWriter to = command(NodeCommand::peer_down);
  call(to.id(peer));
}

bool Node::shutdown() {
  const Blob answer = call(command(NodeCommand::shutdown));
  return BlobReader(answer).byte() != 0;
}

void Node::end() { call(command(NodeCommand::end)); }

void Node::keep_busy(std::uint64_t ms) {
  BlobWriter to = command(NodeCommand::keep_busy);
  call(to.number(ms));
}

NodeFigures Node::figures() {
  const Blob answer = call(command(NodeCommand::figures));
  BlobReader from(answer);
  NodeFigures figures;
  figures.descriptors = from.number();
  figures.threads = from.number();
  figures.resident = from.number();
  figures.offers = from.number();
  figures.pulls = from.number();
  figures.channels = from.number();
  figures.mapped = from.number();
  figures.pulled_bytes = from.number();
  figures.arena_used = from.number();
  figures.lost = from.number() != 0;
  figures.busy = from.number() != 0;
  return figures;
}

}  // namespace mobula::internal::direct_test
