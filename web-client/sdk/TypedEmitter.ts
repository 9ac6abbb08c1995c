export type Unsubscribe = () => void;

/** Events with tuple-typed arguments. A listener that throws neither stops the others nor the emitter; its error is reported as uncaught. */
export class TypedEmitter<Events extends Record<string, readonly unknown[]>> {
  readonly #listeners: { [Name in keyof Events]?: Set<(...args: Events[Name]) => void> } = {};

  on<Name extends keyof Events>(name: Name, listener: (...args: Events[Name]) => void): Unsubscribe {
    (this.#listeners[name] ??= new Set()).add(listener);
    return () => this.off(name, listener);
  }

  once<Name extends keyof Events>(name: Name, listener: (...args: Events[Name]) => void): Unsubscribe {
    const off = this.on(name, (...args) => {
      off();
      listener(...args);
    });
    return off;
  }

  off<Name extends keyof Events>(name: Name, listener: (...args: Events[Name]) => void): void {
    this.#listeners[name]?.delete(listener);
  }

  protected emit<Name extends keyof Events>(name: Name, ...args: Events[Name]): void {
    for (const listener of [...(this.#listeners[name] ?? [])]) {
      try {
        listener(...args);
      } catch (error) {
        queueMicrotask(() => {
          throw error;
        });
      }
    }
  }
}
