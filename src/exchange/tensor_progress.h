// How far the tensors are that are on their way to this process: told by the exchange as it goes, read by who is asked.
// Any thread; a lock of its own.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "base/time.h"
#include "model/direct_path.h"
#include "model/task.h"

namespace mobula::internal::exchange {

class TensorProgress {
 public:
  struct Row {
    ObjectId object;
    ProcessId holder;
    std::uint64_t size_bytes = 0;
    std::uint64_t there_bytes = 0;  // as far as its path tells: of what goes whole it is nothing, then all
    DirectPath path = DirectPath::store;  // that it is tried by; the store: none yet
    Time wanted;
    std::optional<Time> began{};  // when the first bytes of it were asked for
  };

  void want(Time now, std::uint64_t wish, const RefRecords& tensors);
  // What is not on its way is passed over by these.
  void moves(Time now, std::uint64_t wish, ObjectId object, DirectPath path);
  void there(std::uint64_t wish, ObjectId object, std::uint64_t bytes);  // since the beginning
  void more(std::uint64_t wish, ObjectId object, std::uint64_t bytes);
  void over(std::uint64_t wish, ObjectId object);
  void over(std::uint64_t wish);

  // In the order in which they were wanted.
  std::vector<Row> rows() const;

 private:
  using Key = std::pair<std::uint64_t, ObjectId>;
  mutable Mutex mutex_;
  std::map<Key, Row> rows_ MOBULA_GUARDED_BY(mutex_);
};

}  // namespace mobula::internal::exchange
