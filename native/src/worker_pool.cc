#include "worker_pool.h"

#include "thread_priority.h"

namespace segue {

void Job::Settle(Napi::Env env) {
  Napi::HandleScope scope(env);
  // A thread that is being terminated makes no values any more: nobody waits for this promise then, and nothing may be thrown from here.
  try {
    if (error.empty()) {
      deferred_.Resolve(Result(env));
    } else {
      deferred_.Reject(Napi::Error::New(env, error).Value());
    }
  } catch (const Napi::Error& failure) {
    try {
      deferred_.Reject(failure.Value());
    } catch (const Napi::Error&) {
    }
  }
}

Napi::Promise Strand::Post(Napi::Env env, std::unique_ptr<Job> job) {
  Napi::Promise promise = job->Promise();
  bool schedule = false;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (waiting_.size() >= kMaxWaiting) throw Napi::Error::New(env, "codec queue is full: await the calls before");
    waiting_.push_back(std::move(job));
    if (!scheduled_) schedule = scheduled_ = true;
  }
  pool_.JobPosted(env);
  if (schedule) pool_.Schedule(shared_from_this());
  return promise;
}

WorkerPool::WorkerPool(Napi::Env env, unsigned threads) : env_(env) {
  settler_ = Settler::New(env, "segue_media", 0, 1, this);
  settler_.Unref(env);
  // Added after the thread-safe function's own hook and so run before it: the threads end while it can still be called.
  napi_add_env_cleanup_hook(env_, CleanUp, this);
  for (unsigned i = 0; i < threads; i++) threads_.emplace_back([this] { Run(); });
}

WorkerPool::~WorkerPool() {
  napi_remove_env_cleanup_hook(env_, CleanUp, this);
  Stop();
}

void WorkerPool::CleanUp(void* pool) { static_cast<WorkerPool*>(pool)->Stop(); }

void WorkerPool::Stop() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (stopping_) return;
    stopping_ = true;
  }
  wake_.notify_all();
  for (std::thread& thread : threads_) thread.join();
  ready_.clear();
  settler_.Release();
}

void WorkerPool::Schedule(std::shared_ptr<Strand> strand) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (stopping_) return;
    ready_.push_back(std::move(strand));
  }
  wake_.notify_one();
}

void WorkerPool::Run() {
  RaiseThreadPriority();
  for (;;) {
    std::shared_ptr<Strand> strand;
    {
      std::unique_lock<std::mutex> lock(mutex_);
      wake_.wait(lock, [this] { return stopping_ || !ready_.empty(); });
      if (stopping_) return;
      strand = std::move(ready_.front());
      ready_.pop_front();
    }
    std::unique_ptr<Job> job;
    {
      std::lock_guard<std::mutex> lock(strand->mutex_);
      job = std::move(strand->waiting_.front());
      strand->waiting_.pop_front();
    }
    job->Execute();
    // Where the environment is closing, nobody waits for the promise any more and the job may only be freed.
    if (settler_.BlockingCall(job.get()) == napi_ok) job.release();
    bool again = false;
    {
      std::lock_guard<std::mutex> lock(strand->mutex_);
      again = strand->scheduled_ = !strand->waiting_.empty();
    }
    if (again) Schedule(std::move(strand));
  }
}

void WorkerPool::SettleOnJs(Napi::Env env, Napi::Function, WorkerPool* pool, Job* raw) {
  std::unique_ptr<Job> job(raw);
  if (static_cast<napi_env>(env) == nullptr) return;  // torn down before the call ran
  job->Settle(env);
  pool->JobSettled(env);
}

void WorkerPool::JobPosted(Napi::Env env) {
  if (unsettled_++ == 0) settler_.Ref(env);
}

void WorkerPool::JobSettled(Napi::Env env) {
  if (--unsettled_ == 0) settler_.Unref(env);
}

}  // namespace segue
