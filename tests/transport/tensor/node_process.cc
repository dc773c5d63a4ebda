#include "transport/tensor/node_process.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "transport/local/local_link.h"
#include "transport/loop/loop_thread.h"
#include "transport/tensor/inproc_transport.h"
#include "transport/tensor/node_gpu.h"
#include "transport/tensor/plugin/plugin_transport.h"
#include "transport/tensor/shm/shm_transport.h"
#include "transport/tensor/tcp/tcp_transport.h"

namespace mobula::internal::direct_test {
namespace {

constexpr std::byte poison{0xa5};
constexpr std::size_t guard_bytes = 256;

std::uint64_t pattern_word(std::uint64_t seed, std::uint64_t at) {
  std::uint64_t word = (at + 1) * 0x9e3779b97f4a7c15ULL ^ seed * 0xd6e8feb86659fd93ULL;
  word ^= word >> 29;
  return word * 0xbf58476d1ce4e5b9ULL;
}

// Memory that is mapped by the constructor and unmapped by the destructor.
class Pages {
 public:
  explicit Pages(std::size_t bytes) : size_(std::max<std::size_t>(bytes, 1)) {
    void* const at =
        ::mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    MOBULA_CHECK(at != MAP_FAILED, "memory for a test");
    at_ = static_cast<std::byte*>(at);
  }
  Pages(Pages&& other) noexcept : size_(other.size_), at_(std::exchange(other.at_, nullptr)) {}
  Pages& operator=(Pages&&) = delete;
  ~Pages() {
    if (at_ != nullptr) ::munmap(at_, size_);
  }
  std::byte* at() const { return at_; }
  std::size_t size() const { return size_; }

 private:
  std::size_t size_;
  std::byte* at_ = nullptr;
};

Blob take_blob(BlobReader& from) {
  const auto bytes = from.raw(from.number());
  return {bytes.begin(), bytes.end()};
}

std::vector<RegionSpec> take_specs(BlobReader& from) {
  std::vector<RegionSpec> regions(from.number());
  for (RegionSpec& each : regions) {
    each.size = from.number();
    each.seed = from.number();
    each.offset = from.number();
    each.in_file = from.byte() != 0;
  }
  return regions;
}

void put_result(BlobWriter& to, const Result<void>& result) {
  to.byte(result ? 1 : 0);
  to.byte(result ? 0 : static_cast<std::uint8_t>(result.error().code));
  to.text(result ? "" : result.error().text);
}

std::uint64_t status_number(const char* name) {
  std::ifstream file("/proc/self/status");
  for (std::string line; std::getline(file, line);) {
    if (line.rfind(name, 0) == 0) return std::stoull(line.substr(std::strlen(name) + 1));
  }
  return 0;
}

std::uint64_t open_descriptors() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return static_cast<std::uint64_t>(std::distance(begin(all), end(all))) - 1;
}

class NodeProcess {
 public:
  NodeProcess(EventLoop& loop, ProcessId process, const NodeOptions& options)
      : loop_(loop), process_(process), options_(options) {}

  void start(Fd socket);
  // Main thread: keeps itself busy on request, until the end.
  void be_user();

 private:
  struct Source {
    std::vector<RegionSpec> specs;
    std::vector<ArenaBytes> shared;
    std::vector<Pages> own;
    std::vector<DeviceBytes> on_device;
    std::vector<SourceRegion> regions;
  };
  struct Target {
    std::vector<RegionSpec> specs;
    std::vector<Pages> pages;
    std::vector<DeviceBytes> on_device;  // shown by `pages`, for a device
    std::vector<TargetRegion> regions;
    std::optional<TransferEnd> end;
    bool awaited = false;
    std::unique_ptr<Timer> cancels;
  };

  Result<Blob> make_transport();
  void on_command(const LocalFrame& frame);
  void answer(const BlobWriter& blob) { (void)link_->send(blob.bytes()); }
  void open(BlobReader& from);
  void offer(BlobReader& from);
  Result<Source> make_source(std::vector<RegionSpec> specs);
  Result<void> add_source_on_device(Source& source, const RegionSpec& spec);
  void overwrite(const SourceRegion& region);
  bool is_right(std::span<const std::byte> mapped, std::uint64_t seed) const;
  void release(BlobReader& from);
  void pull(BlobReader& from);
  void map(BlobReader& from);
  void tell_seen(TransferId transfer);
  // After quiet: a later write to the targets kills the process.
  void protect(TransferId transfer);
  Peer peer_of(ProcessId process, const Blob& endpoint) const {
    return {process, endpoint, !options_.sealed};
  }

  EventLoop& loop_;
  const ProcessId process_;
  const NodeOptions options_;
  std::unique_ptr<TensorTransport> transport_;
  std::shared_ptr<Arena> arena_;
  std::unique_ptr<NodeGpu> gpu_;
  std::unique_ptr<LocalLink> link_;
  std::map<TransferId, Source> sources_;
  std::map<TransferId, Target> targets_;
  std::map<TransferId, std::shared_ptr<const MappedRegions>> maps_;

  std::mutex mutex_;  // guards the following members
  std::condition_variable changed_;
  std::uint64_t busy_ms_ = 0;
  bool busy_ = false;
  bool over_ = false;
};

void NodeProcess::start(Fd socket) {
  const auto endpoint = make_transport();
  auto link = LocalLink::open(loop_, std::move(socket),
                              {.on_frame = [this](const LocalFrame& frame) { on_command(frame); },
                               .on_closed =
                                   [this](const Failure&) {
                                     const std::scoped_lock lock(mutex_);
                                     over_ = true;
                                     changed_.notify_all();
                                   }});
  link_ = std::move(link).value();
  if (options_.spare_descriptors > 0) {
    const rlim_t most = open_descriptors() + options_.spare_descriptors;
    const rlimit limit{most, most};
    ::setrlimit(RLIMIT_NOFILE, &limit);
  }
  BlobWriter hello;
  put_result(hello, endpoint ? Result<void>() : endpoint.error());
  if (endpoint) hello.raw(*endpoint);
  answer(hello);
}

Result<Blob> NodeProcess::make_transport() {
  if (options_.way == Way::inproc) {
    auto made = InprocTransport::create(loop_, process_);
    if (!made) return made.error();
    transport_ = std::move(made).value();
  } else if (options_.way == Way::shm) {
    ShmOptions options;
    options.socket = options_.directory + "/" + process_.brief();
    options.arena.max_bytes = options_.max_arena;
    options.max_mapped_bytes = options_.max_mapped;
    options.read_processes = options_.read_processes;
    auto made = ShmTransport::create(loop_, process_, options);
    if (!made) return made.error();
    arena_ = (*made)->arena();
    transport_ = std::move(made).value();
  } else if (options_.way == Way::cuda_ipc || options_.way == Way::nccl) {
    auto gpu = NodeGpu::open(options_);
    if (!gpu) return gpu.error();
    gpu_ = std::move(gpu).value();
    auto made = gpu_->make_transport(loop_, process_);
    if (!made) return made.error();
    transport_ = std::move(made).value();
  } else if (options_.way == Way::tcp) {
    TcpOptions options;
    options.listen = options_.address + ":0";
    auto made = TcpTransport::create(loop_, process_, options);
    if (!made) return made.error();
    transport_ = std::move(made).value();
  } else {
    const auto plugin = TransportPlugin::open(plugin_of(options_.way));
    if (!plugin) return plugin.error();
    PluginOptions options;
    options.listen = options_.address;
    auto made = PluginTransport::create(loop_, process_, *plugin, options);
    if (!made) return made.error();
    transport_ = std::move(made).value();
  }
  return transport_->endpoint();
}

void NodeProcess::be_user() {
  std::unique_lock lock(mutex_);
  while (!over_) {
    changed_.wait(lock, [this] { return over_ || busy_ms_ > 0; });
    const Time until = monotonic_now() + std::chrono::milliseconds(std::exchange(busy_ms_, 0));
    lock.unlock();
    // User code: computes and allocates, and never calls into the runtime.
    while (monotonic_now() < until)
      std::vector<char>(100'000, 'x').swap(*std::make_unique<std::vector<char>>());
    lock.lock();
    busy_ = busy_ms_ > 0;
  }
}

Result<NodeProcess::Source> NodeProcess::make_source(std::vector<RegionSpec> specs) {
  Source source;
  for (const RegionSpec& spec : specs) {
    if (gpu_) {
      if (auto added = add_source_on_device(source, spec); !added) return added.error();
      continue;
    }
    std::span<std::byte> bytes;
    std::optional<MemoryFile> file;
    if (arena_ && spec.in_file && spec.size > 0) {
      auto taken = arena_->take(spec.size + spec.offset);
      if (!taken) return taken.error();
      bytes = taken->bytes().subspan(spec.offset);
      file = MemoryFile{taken->file().fd, taken->file().offset + spec.offset};
      source.shared.push_back(std::move(taken).value());
    } else {
      Pages pages(spec.size + spec.offset);
      bytes = std::span(pages.at(), pages.size()).subspan(spec.offset, spec.size);
      source.own.push_back(std::move(pages));
    }
    fill_pattern(bytes, spec.seed);
    source.regions.push_back({.bytes = bytes, .location = {}, .file = file});
  }
  source.specs = std::move(specs);
  return source;
}

Result<void> NodeProcess::add_source_on_device(Source& source, const RegionSpec& spec) {
  auto taken = gpu_->take_source(spec.size + spec.offset + 1);
  if (!taken) return taken.error();
  DeviceFile file = taken->file();
  file.offset += spec.offset;
  const auto bytes = taken->bytes().subspan(spec.offset, spec.size);
  std::vector<std::byte> pattern(spec.size);
  fill_pattern(pattern, spec.seed);
  gpu_->write(bytes, pattern);
  source.regions.push_back(gpu_->source(bytes, file));
  source.on_device.push_back(std::move(taken).value());
  return {};
}

void NodeProcess::overwrite(const SourceRegion& region) {
  if (region.bytes.empty()) return;
  std::byte* const at = const_cast<std::byte*>(region.bytes.data());
  if (gpu_) {
    gpu_->write({at, region.bytes.size()},
                std::vector<std::byte>(region.bytes.size(), std::byte{0x5a}));
  } else {
    std::memset(at, 0x5a, region.bytes.size());
  }
}

bool NodeProcess::is_right(std::span<const std::byte> mapped, std::uint64_t seed) const {
  if (!gpu_) return is_pattern(mapped, seed);
  std::vector<std::byte> seen(mapped.size());
  gpu_->read(seen, mapped);
  return is_pattern(seen, seed);
}

void NodeProcess::offer(BlobReader& from) {
  Offer offer;
  offer.transfer = from.id<TransferId>();
  offer.to.peer = from.id<ProcessId>();
  offer.to.epoch = from.number();
  offer.copy = from.byte() != 0;
  const Blob endpoint = take_blob(from);
  auto source = make_source(take_specs(from));
  const TransferId transfer = offer.transfer;
  const auto tell = [this](const Result<Blob>& ticket) {
    BlobWriter to;
    put_result(to, ticket ? Result<void>() : ticket.error());
    if (ticket) to.raw(*ticket);
    answer(to);
  };
  if (!source) return tell(source.error());
  offer.regions = source->regions;
  offer.peer = peer_of(offer.to.peer, endpoint);
  const bool fresh = sources_.emplace(transfer, std::move(source).value()).second;
  transport_->offer(std::move(offer), [this, transfer, tell, fresh](const Result<Blob>& ticket) {
    if (!ticket && fresh) sources_.erase(transfer);
    tell(ticket);
  });
}

void NodeProcess::release(BlobReader& from) {
  const auto transfer = from.id<TransferId>();
  transport_->release(transfer, [this, transfer] {
    if (const auto at = sources_.find(transfer); at != sources_.end()) {
      for (const SourceRegion& region : at->second.regions) overwrite(region);
      sources_.erase(at);
    }
    answer({});
  });
}

void NodeProcess::pull(BlobReader& from) {
  Pull pull;
  pull.transfer = from.id<TransferId>();
  pull.from.peer = from.id<ProcessId>();
  pull.from.epoch = from.number();
  pull.silence_timeout = std::chrono::milliseconds(from.number());
  const Blob ticket = take_blob(from);
  Target& target = targets_[pull.transfer];
  target = {};
  target.specs = take_specs(from);
  for (const RegionSpec& spec : target.specs) {
    Pages pages(spec.size + spec.offset + 2 * guard_bytes);
    std::memset(pages.at(), static_cast<int>(poison), pages.size());
    const auto all = std::span(pages.at(), pages.size());
    if (gpu_ && !options_.to_host) {
      auto taken = gpu_->take_target(all.size());
      MOBULA_CHECK(taken.ok(), "device memory for a test");
      gpu_->write(taken->bytes(), all);
      target.regions.push_back(
          {taken->bytes().subspan(guard_bytes + spec.offset, spec.size), gpu_->location()});
      target.on_device.push_back(std::move(taken).value());
    } else {
      target.regions.push_back({all.subspan(guard_bytes + spec.offset, spec.size), {}});
    }
    target.pages.push_back(std::move(pages));
  }
  pull.ticket = ticket;
  pull.targets = target.regions;
  const TransferId transfer = pull.transfer;
  transport_->pull(std::move(pull), [this, transfer](TransferEnd end) {
    const auto at = targets_.find(transfer);
    if (at == targets_.end()) return;
    at->second.end = std::move(end);
    if (std::exchange(at->second.awaited, false)) tell_seen(transfer);
  });
  answer({});
}

void NodeProcess::tell_seen(TransferId transfer) {
  Seen seen;
  seen.guards = seen.poison = seen.right = true;
  Target& target = targets_[transfer];
  for (std::size_t i = 0; i < target.regions.size(); ++i) {
    const auto all = std::span<const std::byte>(target.pages[i].at(), target.pages[i].size());
    if (!target.on_device.empty())
      gpu_->read({target.pages[i].at(), target.pages[i].size()}, target.on_device[i].bytes());
    const auto bytes = all.subspan(guard_bytes + target.specs[i].offset, target.specs[i].size);
    const auto is_poison = [](std::byte each) { return each == poison; };
    const std::size_t before = guard_bytes + target.specs[i].offset;
    const auto head = all.first(before), tail = all.subspan(before + bytes.size());
    seen.guards = seen.guards && std::all_of(head.begin(), head.end(), is_poison) &&
                  std::all_of(tail.begin(), tail.end(), is_poison);
    seen.right = seen.right && is_pattern(bytes, target.specs[i].seed);
    seen.poison = seen.poison && std::all_of(bytes.begin(), bytes.end(), is_poison);
    for (std::size_t at = 0; at + 8 <= bytes.size(); at += 8) {
      std::uint64_t word = 0;
      std::memcpy(&word, bytes.data() + at, 8);
      seen.sum = (seen.sum ^ word) * 0x100000001b3ULL + at;
    }
  }
  BlobWriter to;
  put_result(to, target.end ? target.end->result
                            : Result<void>(failure(ErrorCode::timed_out, "under way")));
  to.byte(target.end && target.end->peer_lost ? 1 : 0).number(target.end ? target.end->bytes : 0);
  to.byte(seen.right ? 1 : 0).byte(seen.guards ? 1 : 0).byte(seen.poison ? 1 : 0).number(seen.sum);
  to.byte(target.end && target.end->encrypted ? 1 : 0);
  answer(to);
}

void NodeProcess::protect(TransferId transfer) {
  if (gpu_ && !options_.to_host) return;  // device memory has no protection
  for (const Pages& each : targets_[transfer].pages) {
    ::mprotect(each.at(), each.size(), PROT_READ);
  }
}

void NodeProcess::map(BlobReader& from) {
  const auto transfer = from.id<TransferId>();
  ChannelKey key;
  key.peer = from.id<ProcessId>();
  key.epoch = from.number();
  const Blob ticket = take_blob(from);
  const auto specs = take_specs(from);
  transport_->map(
      transfer, key, ticket,
      [this, transfer, specs](const Result<std::shared_ptr<const MappedRegions>>& made) {
        BlobWriter to;
        put_result(to, made ? Result<void>() : made.error());
        bool right = made && (*made)->regions().size() == specs.size();
        for (std::size_t i = 0; right && i < specs.size(); ++i) {
          right = (*made)->regions()[i].size() == specs[i].size &&
                  is_right((*made)->regions()[i], specs[i].seed);
        }
        if (made) maps_[transfer] = *made;
        to.byte(0).number(0).byte(right ? 1 : 0).byte(1).byte(0).number(0).byte(0);
        answer(to);
      });
}

void NodeProcess::open(BlobReader& from) {
  ChannelKey key;
  key.peer = from.id<ProcessId>();
  key.epoch = from.number();
  const Time deadline = monotonic_now() + std::chrono::milliseconds(from.number());
  const Blob endpoint = take_blob(from);
  transport_->open(key, peer_of(key.peer, endpoint), deadline, [this](const Result<void>& opened) {
    BlobWriter to;
    put_result(to, opened);
    answer(to);
  });
}

void NodeProcess::on_command(const LocalFrame& frame) {
  BlobReader from(frame.bytes);
  BlobWriter to;
  switch (static_cast<NodeCommand>(from.byte())) {
    case NodeCommand::open: return open(from);
    case NodeCommand::offer: return offer(from);
    case NodeCommand::release: return release(from);
    case NodeCommand::pull: return pull(from);
    case NodeCommand::map: return map(from);
    case NodeCommand::inspect: return tell_seen(from.id<TransferId>());
    case NodeCommand::close: {
      const auto peer = from.id<ProcessId>();
      transport_->close({peer, from.number()});
      return answer(to);
    }
    case NodeCommand::seen: {
      const auto transfer = from.id<TransferId>();
      Target& target = targets_[transfer];
      if (target.end) return tell_seen(transfer);
      target.awaited = true;
      return;
    }
    case NodeCommand::drop: {
      const auto transfer = from.id<TransferId>();
      targets_.erase(transfer);
      maps_.erase(transfer);
      return answer(to);
    }
    case NodeCommand::cancel: {
      const auto transfer = from.id<TransferId>();
      return transport_->cancel(transfer, [this, transfer] {
        protect(transfer);
        tell_seen(transfer);
      });
    }
    case NodeCommand::cancel_after: {
      const auto transfer = from.id<TransferId>();
      Target& target = targets_[transfer];
      target.cancels = std::make_unique<Timer>(loop_, [this, transfer] {
        transport_->cancel(transfer, [this, transfer] { protect(transfer); });
      });
      target.cancels->arm(monotonic_now() + std::chrono::microseconds(from.number()));
      return answer(to);
    }
    case NodeCommand::still_offered: {
      const auto at = maps_.find(from.id<TransferId>());
      return answer(to.byte(at != maps_.end() && at->second->offered() ? 1 : 0));
    }
    case NodeCommand::reach: {
      const auto peer = from.id<ProcessId>();
      const auto kind = static_cast<MemoryKind>(from.byte());
      const Blob endpoint = take_blob(from);
      // A location on the device of this node if it has one, otherwise an unknown one.
      MemoryLocation source{kind, {}};
      if (gpu_ && kind == MemoryKind::device) source = gpu_->location();
      const auto cost = transport_->reach(peer_of(peer, endpoint), source,
                                          gpu_ ? gpu_->location() : MemoryLocation());
      put_result(to, cost ? Result<void>() : cost.error());
      return answer(to);
    }
    case NodeCommand::peer_down:
      return transport_->peer_down(from.id<ProcessId>(), [this] { answer({}); });
    case NodeCommand::shutdown:
      return transport_->shutdown(monotonic_now() + 20s,
                                  [this](const std::vector<TransferId>& left) {
                                    BlobWriter said;
                                    answer(said.byte(left.empty() ? 1 : 0));
                                  });
    case NodeCommand::keep_busy: {
      const std::scoped_lock lock(mutex_);
      busy_ms_ = from.number();
      busy_ = true;
      changed_.notify_all();
      return answer(to);
    }
    case NodeCommand::end: {
      transport_.reset();
      return answer(to);
    }
    case NodeCommand::serve: {
      const auto transfer = from.id<TransferId>();
      const auto peer = from.id<ProcessId>();
      transport_->serve({peer, from.number()}, transfer);
      return answer(to);
    }
    case NodeCommand::figures: {
      const TransportStats stats = transport_ ? transport_->stats() : TransportStats();
      to.number(open_descriptors()).number(status_number("Threads:"));
      to.number(status_number("VmRSS:") << 10).number(stats.offers).number(stats.pulls);
      to.number(stats.channels).number(stats.mapped_bytes).number(stats.pulled_bytes);
      to.number(arena_ ? arena_->used_bytes() : gpu_ ? gpu_->source_bytes() : 0);
      to.number(gpu_ && gpu_->lost() ? 1 : 0);
      const std::scoped_lock lock(mutex_);
      return answer(to.number(busy_ ? 1 : 0));
    }
  }
}

}  // namespace

void fill_pattern(std::span<std::byte> to, std::uint64_t seed) {
  for (std::size_t at = 0; at < to.size(); at += 8) {
    const std::uint64_t word = pattern_word(seed, at);
    std::memcpy(to.data() + at, &word, std::min<std::size_t>(8, to.size() - at));
  }
}

bool is_pattern(std::span<const std::byte> bytes, std::uint64_t seed) {
  for (std::size_t at = 0; at < bytes.size(); at += 8) {
    const std::uint64_t word = pattern_word(seed, at);
    if (std::memcmp(bytes.data() + at, &word, std::min<std::size_t>(8, bytes.size() - at)) != 0) {
      return false;
    }
  }
  return true;
}

void run_node(Fd socket, ProcessId process, const NodeOptions& options) {
  auto thread = LoopThread::start();
  // The node lives on the loop's thread; the process exits without any cleanup.
  auto* const node = new NodeProcess((*thread)->loop(), process, options);
  auto* const shared = new Fd(std::move(socket));
  (void)(*thread)->run([&] { node->start(std::move(*shared)); });
  node->be_user();
  ::_exit(0);
}

}  // namespace mobula::internal::direct_test
