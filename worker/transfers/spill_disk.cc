#include "worker/transfers/spill_disk.h"

#include <cerrno>
#include <filesystem>
#include <utility>

#include "base/check.h"
#include "base/logging/log.h"
#include "protocol/program/cluster_files.h"
#include "store/spill_file.h"
#include "worker/event_delivery.h"

namespace mobula::internal::worker {
namespace {

namespace fs = std::filesystem;

constexpr Duration tell_again = 10ms;

std::string path_in(const std::string& directory, std::uint64_t file) {
  return directory + "/" + std::to_string(file);
}

}  // namespace

// Events of one thread, kept while the agent's mailbox is full.
class SpillDisk::IoThread {
 public:
  IoThread(EventLoop& own, DeliverEvents deliver)
      : deliver_(std::move(deliver)), again_(own, [this] { flush(); }) {}

  void tell(Event event) {
    undelivered_.push_back(std::move(event));
    flush();
  }

 private:
  void flush() {
    if (!undelivered_.empty() && !deliver_(undelivered_)) again_.arm(monotonic_now() + tell_again);
  }

  const DeliverEvents deliver_;
  std::vector<Event> undelivered_;
  Timer again_;
};

Result<std::unique_ptr<LoopThread>> SpillDisk::start_thread(
    EventLoop& loop, std::unique_ptr<IoThread>& io, const std::function<void(Event)>& tell) {
  auto thread = LoopThread::start();
  if (!thread) return thread.error();
  auto deliver = deliver_on(loop, tell, alive_);
  const auto made = (*thread)->run(
      [&] { io = std::make_unique<IoThread>((*thread)->loop(), std::move(deliver)); });
  if (!made) return made.error();
  return thread;
}

Result<std::unique_ptr<SpillDisk>> SpillDisk::start(EventLoop& loop, SpillDiskOptions options,
                                                    std::function<void(Event)> tell) {
  std::unique_ptr<SpillDisk> self(new SpillDisk());
  self->root_ = options.directory;
  self->directory_ = options.directory + "/" + options.incarnation.hex();
  self->cap_percent_ = options.cap_percent;
  auto writer = self->start_thread(loop, self->writing_, tell);
  if (!writer) return writer.error();
  self->writer_ = std::move(*writer);
  auto reader = self->start_thread(loop, self->reading_, tell);
  if (!reader) return reader.error();
  self->reader_ = std::move(*reader);
  const auto posted = self->writer_->loop().post([root = self->root_] {
    std::error_code code;
    const auto removed = fs::remove_all(root, code);
    if (!code && removed > 1 && removed != static_cast<std::uintmax_t>(-1)) {
      log_info("files of objects that an earlier agent had spilled were removed from {}", root);
    }
  });
  if (!posted) return posted.error();
  return self;
}

SpillDisk::~SpillDisk() {
  *alive_ = false;
  stop_ = true;
  if (reader_) (void)reader_->run([this] { reading_.reset(); });
  if (writer_) (void)writer_->run([this] { writing_.reset(); });
  reader_.reset();
  writer_.reset();
  std::error_code code;
  fs::remove_all(root_, code);
}

void SpillDisk::write(std::uint64_t file, std::vector<BulkSource> sources) {
  const auto posted = writer_->loop().post([this, file, sources = std::move(sources)] {
    if (!writing_) return;
    SpillFinished finished;
    finished.file = file;
    std::vector<std::span<const std::byte>> values;
    std::uint64_t bytes = 0;
    for (const BulkSource& source : sources) {
      values.push_back(source.bytes);
      bytes += source.bytes.size();
    }
    const auto write_file = [&]() -> Result<std::vector<SpilledRun>> {
      if (auto made = make_private_dir(directory_); !made) return made.error();
      if (auto space = check_disk_space(directory_, bytes, cap_percent_); !space)
        return space.error();
      return write_spill_file(path_in(directory_, file), values, stop_);
    };
    const auto runs = write_file();
    if (runs) {
      for (const SpilledRun& run : *runs) finished.items.push_back({run.offset, run.checksum});
      if (std::exchange(complained_, false)) log_info("objects are spilled to {} again", root_);
    } else {
      finished.failure = runs.error();
      if (!std::exchange(complained_, true)) {
        log_error("objects cannot be spilled to {}, and the store continues without spilling: {}",
                  root_, runs.error().text);
      }
    }
    writing_->tell(std::move(finished));
  });
  MOBULA_CHECK(posted.ok(), "the core writes one file at a time");
}

void SpillDisk::read(const StartRestore& restore, BulkSpace space) {
  const auto posted = reader_->loop().post([this, restore, space = std::move(space)] {
    if (!reading_) return;
    RestoreFinished finished;
    finished.restore = restore.restore;
    const auto read = read_spilled(path_in(directory_, restore.file),
                                   {restore.file_offset, restore.checksum}, space.bytes);
    if (!read) {
      finished.failure = read.error();
      log_error("object {} cannot be read back: {}", restore.object.brief(), read.error().text);
    }
    reading_->tell(std::move(finished));
  });
  MOBULA_CHECK(posted.ok(), "the core bounds what is read back at once");
}

void SpillDisk::remove(std::uint64_t file) {
  // On the reader thread, so that pending reads of the file come first.
  const auto posted = reader_->loop().post([path = path_in(directory_, file)] {
    std::error_code code;
    fs::remove(path, code);
  });
  if (!posted) log_warn("a file of spilled objects stays until the agent ends: {}", file);
}

}  // namespace mobula::internal::worker
