package mqtt

import (
	"strings"

	"github.com/holter-iot/holter/gateway/codec"
	"github.com/holter-iot/holter/mqtt/packet"
)

// packetCode returns the reason code of a refusal.
func packetCode(c codec.Code) packet.Code {
	switch c {
	case codec.BadID:
		return packet.InvalidClientID
	case codec.Unauthorized:
		return packet.BadUserOrPassword
	case codec.Full:
		return packet.QuotaExceeded
	case codec.Busy:
		return packet.ServerBusy
	case codec.TooLong:
		return packet.PacketTooLarge
	case codec.Duplicate:
		return packet.ConnectionRateExceeded
	case codec.Timeout:
		return packet.KeepAliveTimeout
	case codec.BadMessage:
		return packet.MalformedPacket
	default:
		return packet.ProtocolError
	}
}

// codecCode returns the gateway's code for a reason code.
func codecCode(c packet.Code) codec.Code {
	switch c {
	case packet.InvalidClientID:
		return codec.BadID
	case packet.NotAuthorized, packet.BadUserOrPassword, packet.BadAuthMethod:
		return codec.Unauthorized
	case packet.PacketTooLarge:
		return codec.TooLong
	case packet.QuotaExceeded:
		return codec.Full
	case packet.ServerBusy:
		return codec.Busy
	default:
		return codec.BadMessage
	}
}

// goodbyeCode returns the reason code for what the gateway says when it closes a connection.
func goodbyeCode(why string, err *codec.Error) packet.Code {
	if err != nil {
		return packetCode(err.Code)
	}
	word, _, _ := strings.Cut(why, ":")
	switch word {
	case "replaced":
		return packet.SessionTakenOver
	case "silence", "idle":
		return packet.KeepAliveTimeout
	case "admin":
		return packet.AdministrativeAction
	case "revoked":
		return packet.NotAuthorized
	case "flood":
		return packet.MessageRateTooHigh
	case "shutdown":
		return packet.ServerShuttingDown
	case "moved":
		return packet.UseAnotherServer
	}
	return packet.UnspecifiedError
}
