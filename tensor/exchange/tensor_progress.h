// Progress of each tensor that this process pulls. The exchange writes it, queries read it.
// Thread: any; one internal lock.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "base/model/direct_path.h"
#include "base/model/task.h"
#include "base/mutex.h"
#include "base/time.h"

namespace mobula::internal::exchange {

class TensorProgress {
 public:
  struct Row {
    ObjectId object;
    ProcessId holder;
    std::uint64_t size_bytes = 0;
    // bytes received; stays 0 until the end on paths that report no progress
    std::uint64_t there_bytes = 0;
    // path of the current attempt; `store`: no attempt has begun
    DirectPath path = DirectPath::store;
    Time wanted;
    std::optional<Time> began{};  // time of the first request for bytes
  };

  void pull(Time now, std::uint64_t request, const RefRecords& tensors);
  // The next four functions ignore a tensor that is not in progress.
  void moves(Time now, std::uint64_t request, ObjectId object, DirectPath path);
  // total since the start of the attempt
  void there(std::uint64_t request, ObjectId object, std::uint64_t bytes);
  void more(std::uint64_t request, ObjectId object, std::uint64_t bytes);
  void over(std::uint64_t request, ObjectId object);
  void over(std::uint64_t request);

  // Rows in the order of their requests.
  std::vector<Row> rows() const;

 private:
  using Key = std::pair<std::uint64_t, ObjectId>;
  mutable Mutex mutex_;
  std::map<Key, Row> rows_ MOBULA_GUARDED_BY(mutex_);
};

}  // namespace mobula::internal::exchange
