// A simulated process with a tensor exchange for tests: separate thread and sockets, elements with
// numbered bytes.
// Thread: test.
#pragma once

#include "tensor/exchange/tensor_exchange.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <condition_variable>
#include <filesystem>
#include <mutex>
#include <thread>

#include "base/check.h"
#include "matrix/cells.h"
#include "protocol/codec/messages.h"
#include "protocol/tickets/ticket.h"
#include "transport/tensor/gpu/cuda_ipc_transport.h"

namespace mobula::internal::exchange {

using namespace std::chrono_literals;
using matrix::belongs_to;
using matrix::Column;
using matrix::Part;
using matrix::Proof;

inline const SigningKeys& head() {
  static const SigningKeys keys = SigningKeys::generate();
  return keys;
}

// Directory for sockets, removed with the object.
class Directory {
 public:
  Directory() : path_(std::filesystem::temp_directory_path().string() + "/mobula-exchange-XXXXXX") {
    MOBULA_CHECK(::mkdtemp(path_.data()) != nullptr, "mkdtemp");
  }
  ~Directory() { std::filesystem::remove_all(path_); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

using SocketDir = Directory;

struct Member {
  std::uint64_t number = 0;
  std::uint64_t node = 1;
  std::uint64_t job = 1;
  bool expired = false;
  std::string own_host = {};  // as in ExchangeOptions
  std::string fabric = {};
  std::string plugins = {};
  std::uint64_t step_bytes = std::uint64_t{64} << 20;
  // limit on bytes in transit to this process
  std::uint64_t receive_bytes = std::uint64_t{1} << 30;
  std::shared_ptr<GpuDevices> gpus = nullptr;
  std::string admitted_as = {};                // key of the ticket
  std::vector<std::string> revoked_keys = {};  // revoked keys
  Duration idle_timeout = 60s;                 // without a transfer
  std::size_t many_ties = 256;
  std::uint64_t chunk_bytes = std::uint64_t{8}
                              << 20;  // 0: whole tensors only, as in older releases
  Duration handshake_timeout = 5s;
};

// One process with its exchange. Elements are numbered bytes.
class Process {
 public:
  Process(const std::string& directory, Member member) : id_(ProcessId::of(member.number)) {
    auto keys = CurveKeys::generate();
    MOBULA_CHECK(keys.ok(), "keys");
    Ticket ticket;
    ticket.principal.role = Role::executor;
    ticket.principal.job = JobId::of(member.job);
    ticket.process = id_;
    ticket.node = NodeId::of(member.node);
    ticket.curve_key = keys->public_key;
    ticket.admitted_as = member.admitted_as;
    ticket.expires_ms = wall_clock_ms() + (member.expired ? -3'600'000 : 3'600'000);
    ExchangeOptions options;
    options.self.process = id_;
    options.self.node = NodeId::of(member.node);
    options.job = JobId::of(1);
    options.ticket = sign_ticket(ticket, head());
    options.head_signing_key = head().public_key;
    options.revoked_keys.add(member.revoked_keys);
    options.keys = *keys;
    options.sockets = directory + "/p" + std::to_string(member.number);
    options.host_bind = "127.0.0.1:0";
    options.own_host = member.own_host;
    options.fabric = member.fabric;
    options.plugins = member.plugins;
    options.gpus = member.gpus;
    options.regions.step_bytes = member.step_bytes;
    options.regions.max_receive_bytes = member.receive_bytes;
    options.regions.chunk_bytes = member.chunk_bytes;
    options.regions.idle_timeout = member.idle_timeout;
    options.regions.many_ties = member.many_ties;
    options.regions.part_after_of_many = 300ms;
    options.handshake_timeout = member.handshake_timeout;
    gpus_ = member.gpus;
    auto started = TensorExchange::start(
        std::move(options),
        {.completed =
             [this](PullResult arrival) {
               const std::lock_guard lock(mutex_);
               arrivals_.push_back(std::move(arrival));
               changed_.notify_all();
             },
         .store =
             [this](ObjectId object, const SourceRegion& elements, std::shared_ptr<const void>) {
               const std::lock_guard lock(mutex_);
               stored_.push_back({object, elements.bytes.size()});
               exchange_->stored(object, std::nullopt);
             }});
    MOBULA_CHECK(started.ok(), "exchange");
    exchange_ = std::move(*started);
  }

  TensorExchange& exchange() { return *exchange_; }
  void end() { exchange_.reset(); }

  // Registers elements in shared memory, or in private memory.
  RefRecord register_tensor(std::uint64_t object, std::size_t size, bool shared,
                            TransportPreference preference = {.direct = true}) {
    SourceRegion region;
    std::shared_ptr<const void> owner;
    std::span<std::byte> bytes;
    if (shared) {
      auto taken = exchange_->arena()->take(size);
      MOBULA_CHECK(taken.ok(), "arena");
      auto kept = std::make_shared<ArenaBytes>(std::move(*taken));
      bytes = kept->bytes();
      region = kept->region();
      owner = kept;
    } else {
      auto kept = std::make_shared<std::vector<std::byte>>(size);
      bytes = *kept;
      region.bytes = bytes;
      owner = kept;
    }
    for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(i * 7 + object);
    alive_[object] = owner;
    exchange_->register_tensor(ObjectId::of(object), region, std::move(owner));
    RefRecord ref{ObjectId::of(object), NodeId::of(1), id_, {}};
    ref.tensor =
        TensorRecord{static_cast<std::int64_t>(size), shared, preference, exchange_->self()};
    return ref;
  }
  // Registers elements on the first GPU of the process.
  RefRecord publish_on_gpu(std::uint64_t object, std::size_t size,
                           TransportPreference preference = {.direct = true}) {
    std::vector<std::byte> bytes(size);
    for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(i * 7 + object);
    const auto device_ordinal = first_ordinal();
    auto taken = gpus_->take(device_ordinal, std::max<std::size_t>(size, 1));
    MOBULA_CHECK(taken.ok(), "device memory");
    DeviceCopy copy;
    copy.to = device_ordinal;
    copy.settled = true;
    if (size > 0) copy.rows.push_back({.to = taken->bytes, .from = bytes.data(), .width = size});
    MOBULA_CHECK(gpus_->memory()->copy(copy).ok(), "copy");
    const auto& device = gpus_->devices().at(static_cast<std::size_t>(device_ordinal));
    const std::span<const std::byte> there(taken->bytes, size);
    alive_[object] = taken->owner;
    exchange_->register_tensor(
        ObjectId::of(object),
        region_of(device.context->uuid(), there, *device.arena->file_of(taken->bytes)),
        taken->owner);
    RefRecord ref{ObjectId::of(object), NodeId::of(1), id_, {}};
    ref.tensor = TensorRecord{
        static_cast<std::int64_t>(size), true, preference, exchange_->self(), 0, 0, device.uuid};
    return ref;
  }
  int first_ordinal() const { return gpus_->landing({}); }
  // Copies the completed elements to the host and compares them.
  bool is_numbered_here(const PullResult& arrival, std::uint64_t object, std::size_t size) {
    const auto* elements = std::get_if<Elements>(&arrival.outcome);
    if (elements == nullptr || elements->bytes.size() != size || elements->device == on_host)
      return false;
    std::vector<std::byte> here(size);
    DeviceCopy copy;
    copy.from = elements->device;
    copy.settled = true;
    copy.rows.push_back({.to = here.data(), .from = elements->bytes.data(), .width = size});
    if (!gpus_->memory()->copy(copy)) return false;
    for (std::size_t i = 0; i < size; ++i) {
      if (here[i] != static_cast<std::byte>(i * 7 + object)) return false;
    }
    return true;
  }
  bool is_alive(std::uint64_t object) { return !alive_.at(object).expired(); }

  PullResult pull(const RefRecord& ref) {
    std::vector<PullResult> all = pull_all({ref});
    return std::move(all.front());
  }
  std::vector<PullResult> pull_all(RefRecords refs) {
    const std::size_t count = refs.size();
    exchange_->pull(++requests_, std::move(refs), false);
    return wait_for(count);
  }
  std::vector<PullResult> wait_for(std::size_t count) {
    std::unique_lock lock(mutex_);
    MOBULA_CHECK(changed_.wait_for(lock, 20s, [&] { return arrivals_.size() >= count; }),
                 "nothing arrived");
    return std::exchange(arrivals_, {});
  }
  std::size_t stored() {
    const std::lock_guard lock(mutex_);
    return stored_.size();
  }

 private:
  const ProcessId id_;
  std::shared_ptr<GpuDevices> gpus_;  // shared with the exchange
  std::uint64_t requests_ = 0;
  std::map<std::uint64_t, std::weak_ptr<const void>> alive_;
  std::mutex mutex_;  // guards the following members
  std::condition_variable changed_;
  std::vector<PullResult> arrivals_;
  std::vector<std::pair<ObjectId, std::size_t>> stored_;
  std::unique_ptr<TensorExchange> exchange_;
};

inline bool is_numbered(const PullResult& arrival, std::uint64_t object, std::size_t size) {
  const auto* elements = std::get_if<Elements>(&arrival.outcome);
  if (elements == nullptr || elements->bytes.size() != size) return false;
  for (std::size_t i = 0; i < size; ++i) {
    if (elements->bytes[i] != static_cast<std::byte>(i * 7 + object)) return false;
  }
  return true;
}

template <class Condition>
bool soon(Condition condition) {
  for (int i = 0; i < 2'000; ++i) {
    if (condition()) return true;
    std::this_thread::sleep_for(5ms);
  }
  return false;
}

}  // namespace mobula::internal::exchange
