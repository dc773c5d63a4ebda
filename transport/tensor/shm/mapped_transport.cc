#include "transport/tensor/shm/mapped_transport.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <fstream>
#include <utility>

#include "base/mutex.h"

namespace mobula::internal {
namespace {

std::string first_line(const char* path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// A process can always read itself unless a filter forbids the call. Reading others also requires
// that a security module (yama) permits unrelated processes; the superuser is exempt.
bool may_read_processes() {
  std::uint64_t seen = 0;
  const std::uint64_t word = 1;
  const iovec here{&seen, sizeof seen};
  const iovec there{const_cast<std::uint64_t*>(&word), sizeof word};
  if (::process_vm_readv(::getpid(), &here, 1, &there, 1, 0) != sizeof seen) return false;
  const std::string scope = first_line("/proc/sys/kernel/yama/ptrace_scope");
  return scope.empty() || scope == "0" || (::geteuid() == 0 && scope != "3");
}

}  // namespace

Result<ShmDomain> domain_of_this_process(bool read_processes) {
  ShmDomain domain;
  std::string boot = first_line("/proc/sys/kernel/random/boot_id");
  std::erase(boot, '-');
  const auto bits = bits_from_hex(boot);
  if (!bits) {
    return failure(ErrorCode::unavailable,
                   "/proc/sys/kernel/random/boot_id does not name this machine; is /proc there?");
  }
  domain.boot = *bits;
  domain.user = ::geteuid();
  struct stat status {};
  if (::stat("/proc/self/ns/pid", &status) == 0) domain.pid_space = status.st_ino;
  domain.reads_processes = read_processes && domain.pid_space != 0 && may_read_processes();
  return domain;
}

// Forwards reports of freed memory to the loop while the transport exists.
struct MappedTransport::Gone {
  Mutex mutex;
  EventLoop* loop MOBULA_GUARDED_BY(mutex) = nullptr;
  MappedTransport* transport = nullptr;  // only the loop's thread accesses it

  static void tell(const std::shared_ptr<Gone>& self, FileKey file) {
    const MutexLock lock(self->mutex);
    if (self->loop == nullptr) return;
    // If the mailbox is full, the receivers keep their mappings until their channel ends.
    (void)self->loop->post([self, file] {
      if (self->transport != nullptr) self->transport->forget(file);
    });
  }
};

MappedTransport::MappedTransport(EventLoop& loop, ShmEndpoint self, DirectLimits limits)
    : loop_(loop),
      self_(std::move(self)),
      limits_(limits),
      endpoint_(self_.encode()),
      later_(loop),
      shutdown_timer_(loop, [this] { finish_shutdown(); }),
      gone_(std::make_shared<Gone>()) {
  gone_->loop = &loop;
  gone_->transport = this;
}

MappedTransport::~MappedTransport() {
  const MutexLock lock(gone_->mutex);
  gone_->loop = nullptr;
  gone_->transport = nullptr;
}

Result<void> MappedTransport::check_same_domain(const Peer& peer) const {
  const auto there = ShmEndpoint::decode(peer.endpoint, self_.kind);
  if (!there) return there.error();
  if (there->process != peer.process) {
    return failure(ErrorCode::invalid_argument,
                   fmt::format("{}: the endpoint of another process", name()));
  }
  if (there->domain.boot != self_.domain.boot) {
    return failure(ErrorCode::unavailable, fmt::format("{}: another machine", name()));
  }
  if (there->domain.user != self_.domain.user) {
    return failure(ErrorCode::unavailable, fmt::format("{}: another user", name()));
  }
  return {};
}

std::function<void(FileKey)> MappedTransport::forgets() {
  return [gone = gone_](FileKey file) { Gone::tell(gone, file); };
}

Result<void> MappedTransport::start(MappedMedium medium, std::unique_ptr<Copies> copies,
                                    Arena* arena, std::uint64_t max_mapped_bytes) {
  medium_ = std::move(medium);
  copies_ = std::move(copies);
  const ShmShared shared{loop_, later_, *copies_, medium_, limits_, self_, stats_};
  auto holder = ShmHolder::create(shared, arena);
  if (!holder) return holder.error();
  holder_ = std::move(holder).value();
  receiver_ = std::make_unique<ShmReceiver>(shared, max_mapped_bytes);
  return {};
}

void MappedTransport::open(const ChannelKey& key, const Peer& peer, Time deadline, Opened opened) {
  receiver_->open(key, peer, deadline, std::move(opened));
}
void MappedTransport::close(const ChannelKey& key) { receiver_->close(key); }
void MappedTransport::offer(Offer offer, Offered offered) {
  holder_->offer(std::move(offer), std::move(offered));
}
void MappedTransport::release(TransferId transfer, Quiet quiet) {
  holder_->release(transfer, std::move(quiet));
}
void MappedTransport::pull(Pull pull, Ended ended) {
  receiver_->pull(std::move(pull), std::move(ended));
}
void MappedTransport::map(TransferId transfer, const ChannelKey& from,
                          std::span<const std::byte> ticket, Mapped mapped) {
  receiver_->map(transfer, from, ticket, std::move(mapped));
}
void MappedTransport::cancel(TransferId transfer, Quiet quiet) {
  receiver_->cancel(transfer, std::move(quiet));
}

void MappedTransport::peer_down(ProcessId peer, Quiet quiet) {
  const QuietGate gate(std::move(quiet));
  receiver_->end_all(
      &peer, failure(ErrorCode::unavailable, fmt::format("process {} has exited", peer.brief())),
      gate);
  holder_->release_all(&peer, gate);
  later_.call(gate.add());
}

void MappedTransport::shutdown(Time deadline, std::function<void(std::vector<TransferId>)> done) {
  shut_down_ = std::move(done);
  shutdown_timer_.arm(deadline);
  const QuietGate gate([this] { finish_shutdown(); });
  receiver_->end_all(nullptr, ended_by_owner(), gate);
  holder_->release_all(nullptr, gate);
  later_.call(gate.add());
}

void MappedTransport::finish_shutdown() {
  shutdown_timer_.disarm();
  if (const auto done = std::exchange(shut_down_, nullptr)) done(receiver_->pulls());
}

TransportStats MappedTransport::stats() const {
  TransportStats now = stats_;
  now.offers = holder_->offers();
  now.pulls = receiver_->pulls().size();
  now.channels = receiver_->channels();
  now.mapped_bytes = receiver_->mapped_bytes();
  return now;
}

}  // namespace mobula::internal
