// Search runs in a worker, and browsers allow no worker in pages that are opened as files. There, a hidden frame takes its
// place: it runs the same script and passes messages on in the same way.
if (location.protocol === "file:") {
  // The script looks for the second name to find its own folder.
  window.Worker = window.IFrameWorker = class extends EventTarget {
    constructor(url) {
      super()
      this.frame = document.createElement("iframe")
      this.frame.hidden = true
      document.body.appendChild(this.frame)
      addEventListener("message", event => {
        if (event.source !== this.frame.contentWindow) return
        const message = new MessageEvent("message", { data: event.data })
        this.dispatchEvent(message)
        if (this.onmessage) this.onmessage(message)
      })
      const inside = this.frame.contentWindow.document
      inside.open()
      inside.write(`<html><body><script>
        postMessage = message => parent.postMessage(message, "*")
        importScripts = (...urls) => urls.reduce((before, url) => before.then(() => new Promise(resolve => {
          const script = document.createElement("script")
          script.src = url
          script.onload = resolve
          document.body.appendChild(script)
        })), Promise.resolve())
      <\/script><script src="${url}"><\/script></body></html>`)
      inside.close()
      this.loaded = new Promise(resolve => { this.frame.contentWindow.onload = resolve })
    }

    postMessage(data) {
      this.loaded.then(() => this.frame.contentWindow.dispatchEvent(new MessageEvent("message", { data })))
    }

    terminate() {
      this.frame.remove()
    }
  }
}
