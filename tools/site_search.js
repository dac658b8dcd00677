// Search in pages that are opened from a disk, where browsers refuse workers: a worker is a frame.
// The name under which the site has this file must contain iframe-worker, or mkdocs-material loads
// a script of that name from another host.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super()
      const frame = document.createElement("iframe")
      frame.hidden = true
      document.body.append(frame)
      const inside = (this.inside = frame.contentWindow)
      this.terminate = () => frame.remove()
      inside.document.open()
      inside.postMessage = data => this.dispatchEvent(new MessageEvent("message", { data }))
      this.loaded = new Promise(done => (inside.isLoaded = done))
      inside.document.write(`<script src="${url}"><\/script><script>isLoaded()<\/script>`)
      inside.document.close()
    }
    async postMessage(data) {
      await this.loaded
      this.inside.dispatchEvent(new MessageEvent("message", { data }))
    }
  }
}
