#include <algorithm>

#include <fmt/format.h>

#include "store/core/byte_text.h"
#include "store/core/object_table.h"

namespace mobula::internal {

Failure ObjectTable::full(const ReserveRequest& request) const {
  std::vector<std::pair<JobId, JobUse>> biggest(jobs_.begin(), jobs_.end());
  std::stable_sort(biggest.begin(), biggest.end(), [](const auto& a, const auto& b) {
    return a.second.used_bytes > b.second.used_bytes;
  });
  std::string text = fmt::format(
      "no space for object {} of {} ({} bytes): this node's object store holds {}, {} are in use "
      "by objects and {} by the slabs that contain them",
      request.object.brief(), byte_text(request.size_bytes), request.size_bytes,
      byte_text(space_.capacity_bytes()), byte_text(space_.used_bytes()),
      byte_text(space_.committed_bytes()));
  static constexpr std::size_t shown = 3;
  for (std::size_t i = 0; i < std::min(shown, biggest.size()); ++i) {
    text += fmt::format("{} job {}: {} in {} objects", i == 0 ? "; most by" : ",",
                        biggest[i].first.brief(), byte_text(biggest[i].second.used_bytes),
                        biggest[i].second.objects);
  }
  text += request.size_bytes > space_.capacity_bytes()
              ? "; it can never fit: raise --object-store-memory"
              : "; drop references to objects, or raise --object-store-memory";
  return failure(ErrorCode::resource_exhausted, std::move(text));
}

}  // namespace mobula::internal
