#include "transport/tensor/shm/shm_transport.h"

#include <utility>

namespace mobula::internal {
namespace {

constexpr PathCost shm_cost{30us, 5e9};

}  // namespace

Availability ShmTransport::probe() {
  const auto domain = domain_of_this_process(true);
  if (!domain) return {false, domain.error().text};
  const auto file = SharedFile::create(1, "mobula-probe");
  if (!file) return {false, file.error().text};
  return {true, domain->reads_processes ? "memory in no file is read by process_vm_readv"
                                        : "memory in no file is copied by its holder"};
}

ShmTransport::ShmTransport(EventLoop& loop, const ShmOptions& options, ShmEndpoint self)
    : MappedTransport(loop, std::move(self), options.limits),
      arena_(std::make_shared<Arena>(options.arena, forgets())) {
  caps_.scope = TransportScope::machine;
  caps_.source_kinds = caps_.target_kinds = host_kinds;
  caps_.maps = true;
}

Result<std::unique_ptr<ShmTransport>> ShmTransport::create(EventLoop& loop, ProcessId process,
                                                           ShmOptions options) {
  auto domain = domain_of_this_process(options.read_processes);
  if (!domain) return domain.error();
  std::unique_ptr<ShmTransport> made(
      new ShmTransport(loop, options, {DirectKind::shm, process, *domain, options.socket}));
  auto copies = CopyThreads::create(loop, options.copying);
  if (!copies) return copies.error();
  MappedMedium medium;
  medium.map = [](const Fd& descriptor, std::uint64_t size_bytes, const MappedMedium::Made& done) {
    done(ReadMapping::map(descriptor.get(), size_bytes));
  };
  auto started = made->start(std::move(medium), std::move(copies).value(), made->arena_.get(),
                             options.max_mapped_bytes);
  if (!started) return started.error();
  return made;
}

Result<PathCost> ShmTransport::reach(const Peer& peer, const MemoryLocation& source,
                                     const MemoryLocation& target) const {
  if (!source.on_host() || !target.on_host()) return not_for_device("shm");
  if (auto same = check_same_domain(peer); !same) return same.error();
  return shm_cost;
}

}  // namespace mobula::internal
