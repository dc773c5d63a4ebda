#include "worker/transfers/slab_files.h"

namespace mobula::internal::worker {

Result<void> SlabFiles::create(SlabId slab, std::uint64_t size_bytes, bool own) {
  auto file = create_slab_file(size_bytes, "mobula-" + slab.brief());
  if (!file) return file.error();
  Row row{.file = std::move(*file), .size_bytes = size_bytes, .own = {}, .mapped = {}};
  if (own) {
    auto mapped = WritableSlab::map(row.file.get(), size_bytes, Paging::on_use);
    if (!mapped) return mapped.error();
    row.own = std::make_shared<const WritableSlab>(std::move(*mapped));
    if (auto sealed = seal(row); !sealed) return sealed;
  }
  rows_.insert_or_assign(slab, std::move(row));
  return {};
}

void SlabFiles::drop(SlabId slab) { rows_.erase(slab); }

Result<SlabFiles::Row*> SlabFiles::find(SlabId slab) {
  const auto at = rows_.find(slab);
  if (at == rows_.end()) {
    return failure(ErrorCode::not_found, "slab " + slab.brief() + " is not on this node");
  }
  return &at->second;
}

Result<void> SlabFiles::seal(Row& row) {
  if (row.sealed) return {};
  if (auto sealed = seal_slab_file(row.file.get()); !sealed) return sealed;
  row.sealed = true;
  return {};
}

Result<Fd> SlabFiles::for_writer(SlabId slab) {
  const auto row = find(slab);
  if (!row) return row.error();
  return copy_of((*row)->file);
}

Result<Fd> SlabFiles::for_reader(SlabId slab) {
  const auto row = find(slab);
  if (!row) return row.error();
  if (auto sealed = seal(**row); !sealed) return sealed.error();
  return copy_of((*row)->file);
}

SlabId SlabFiles::by_number(std::uint64_t number) const {
  for (const auto& [slab, row] : rows_) {
    if (slab.bits().low == number) return slab;
  }
  return SlabId();
}

Result<std::shared_ptr<const WritableSlab>> SlabFiles::writable(SlabId slab) {
  const auto row = find(slab);
  if (!row) return row.error();
  if (!(*row)->own) {
    return failure(ErrorCode::permission_denied,
                   "slab " + slab.brief() + " does not belong to the agent");
  }
  return (*row)->own;
}

Result<std::shared_ptr<const SlabMapping>> SlabFiles::readable(SlabId slab) {
  const auto row = find(slab);
  if (!row) return row.error();
  if (auto mapped = (*row)->mapped.lock()) return mapped;
  if (auto sealed = seal(**row); !sealed) return sealed.error();
  auto mapped = SlabMapping::map((*row)->file.get(), (*row)->size_bytes, Paging::on_use);
  if (mapped) (*row)->mapped = *mapped;
  return mapped;
}

}  // namespace mobula::internal::worker
