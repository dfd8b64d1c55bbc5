package cli

// clientCommands are the commands for operators, beside serve.
type clientCommands struct {
	Devices     devicesCommand       `cmd:"" help:"List devices and their states."`
	Device      deviceCommand        `cmd:"" help:"Administer a device: forget, disconnect, policy, maintenance."`
	Sources     sourcesCommand       `cmd:"" help:"Show the sources of heartbeats, and retire those that will not come back."`
	Explain     explainDeviceCommand `cmd:"" help:"Say why a device is in the state that it is in."`
	Events      eventsCommand        `cmd:"" help:"List what happened, or follow it as it happens."`
	Stats       statsCommand         `cmd:"" help:"Show devices by state, events, and the health of the server."`
	Send        sendCommand          `cmd:"" help:"Send a message to a connected device."`
	Jobs        jobsCommand          `cmd:"" help:"List, add and remove jobs to be delivered; dead letters."`
	Queues      queuesCommand        `cmd:"" help:"Look after the queues that jobs wait in."`
	Endpoints   endpointsCommand     `cmd:"" help:"Look after the places that jobs are delivered to."`
	Routes      routesCommand        `cmd:"" help:"Say which events are delivered where."`
	Schedules   schedulesCommand     `cmd:"" help:"Look after what is done at set times: webhooks, commands, reports, maintenance windows."`
	Playbooks   playbooksCommand     `cmd:"" help:"Show what is done after an event, and do it for a device."`
	Runs        runsCommand          `cmd:"" help:"Show how far playbooks are, and cancel their runs."`
	Token       tokenCommand         `cmd:"" help:"Make, list and revoke tokens for the API."`
	DeviceToken deviceTokenCommand   `cmd:"" help:"Make a token for a device, and its line for the file of devices."`
	Password    passwordCommand      `cmd:"" help:"Make a line for the file of the MQTT broker's users."`
	Doctor      doctorCommand        `cmd:"" help:"Check this machine, the data and the API for what keeps holter from working well."`
}
