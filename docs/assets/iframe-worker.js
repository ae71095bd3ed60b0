/* A page that was opened as a file may start no Worker, and search is one. Here its script runs in a hidden frame. */
(function () {
  if (location.protocol !== "file:") return;

  function load(frame, url) {
    return new Promise(function (done, failed) {
      const script = frame.contentDocument.createElement("script");
      script.src = url;
      script.onload = done;
      script.onerror = failed;
      frame.contentDocument.body.appendChild(script);
    });
  }

  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      this.frame = frame;
      this.ready = new Promise((done, failed) => {
        frame.onload = () => {
          frame.onload = null;
          const inside = frame.contentWindow;
          inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
          inside.importScripts = (...urls) =>
            urls.reduce((before, each) => before.then(() => load(frame, each)), Promise.resolve());
          load(frame, url).then(done, failed);
        };
      });
      frame.hidden = true;
      frame.title = "search";
      document.body.appendChild(frame);
    }

    postMessage(data) {
      this.ready.then(() => this.frame.contentWindow.dispatchEvent(new MessageEvent("message", { data })));
    }

    terminate() {
      this.frame.remove();
    }
  };
})();
